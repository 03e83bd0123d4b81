#include "harness/model/failure_text.h"

#include "harness/base/regex.h"
#include "harness/case/signature.h"

namespace recapture {

std::optional<ProgramFailure> ProgramFailure::read(const std::string& seen) {
  static const RE2 kForm(R"re((\d{1,4}) > (ok|\d{1,4})(?: by .*)?)re", RE2::Latin1);
  ProgramFailure failure;
  if (!RE2::FullMatch(seen, kForm, &failure.code, &failure.end)) return std::nullopt;
  return failure;
}

std::optional<std::string> failed_check(const std::string& seen) {
  for (const std::string begin : {"check \"", "assert \""}) {
    if (seen.starts_with(begin) && seen.size() > begin.size() && seen.back() == '"') {
      return seen.substr(begin.size(), seen.size() - begin.size() - 1);
    }
  }
  return std::nullopt;
}

bool names_failure(const std::string& seen) {
  static const RE2 kException(R"re(^[\w.]*(?:Error|Exception|Failed|Unsupported|StopIteration): )re", RE2::Latin1);
  if (const auto signature = Signature::read(seen))
    return signature->first != "ok" || !signature->end.starts_with("ok");
  return ProgramFailure::read(seen) || code_of_failure(seen) != 0 || RE2::PartialMatch(seen, kException);
}

}  // namespace recapture
