#include "harness/explain/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/toml.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

// Parts that any text has would let their cause speak for any text.
void check_parts(const std::string& cue, const std::string& place) {
  constexpr std::string_view kAnd = " + ";
  constexpr size_t kShortest = 4;
  if (cue.find(kAnd) == std::string::npos) return;
  std::set<std::string> parts;
  for (size_t at = 0; at <= cue.size();) {
    const size_t end = std::min(cue.find(kAnd, at), cue.size());
    const std::string part = lower_case(cue.substr(at, end - at));
    if (part.size() < kShortest || !parts.insert(part).second) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}: the parts of '{}' are searched one by one; let them differ, and be of {} "
                                  "letters or more",
                                  place, cue, kShortest));
    }
    at = end + kAnd.size();
  }
}

// What an error says of itself makes no cause of it likelier than another one.
void check_hint(const std::string& hint, const std::vector<int>& codes, const std::string& place) {
  for (const CudaError& error : kCudaErrors) {
    if (std::find(codes.begin(), codes.end(), error.code) == codes.end()) continue;
    if (lower_case(error.text).find(lower_case(hint)) == std::string::npos) continue;
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' stands in the text of error {} itself; leave the hint out",
                                             place, hint, error.code));
  }
}

}  // namespace

std::vector<Cause> read_causes(const std::string& root, const Catalogue& catalogue) {
  const std::string path = root + "/cases/diagnoses.toml";
  const toml::table file = parse_toml(path);
  only_keys(file, {"cause"}, path);
  const auto* entries = file["cause"].as_array();
  if (entries == nullptr) throw ExitError(Exit::Usage, path + ": has no [[cause]]");
  std::vector<Cause> causes;
  std::set<std::string> ids;
  for (const auto& entry : *entries) {
    const std::string place = place_of(path, entry);
    if (!entry.is_table()) throw ExitError(Exit::Usage, place + ": a cause is a table");
    const toml::table& table = *entry.as_table();
    only_keys(table,
              {"id", "title", "capture", "other_thread", "victim", "codes", "says", "calls", "names", "hints", "fixes",
               "useless"},
              place);
    Cause cause;
    cause.id = text_in(table, "id", place);
    if (!ids.insert(cause.id).second)
      throw ExitError(Exit::Usage, fmt::format("{}: '{}' is there twice", place, cause.id));
    const auto its_case =
        std::find_if(catalogue.begin(), catalogue.end(), [&](const CatalogueCase& one) { return one.id == cause.id; });
    cause.has_case = its_case != catalogue.end();
    cause.title = text_in(table, "title", place, !cause.has_case);
    if (cause.title.empty()) cause.title = its_case->title;
    cause.capture = table["capture"].value_or(true);
    cause.other_thread = table["other_thread"].value_or(false);
    cause.victim = table["victim"].value_or(false);
    if (const auto* codes = table["codes"].as_array()) {
      for (const auto& code : *codes) cause.codes.push_back(code.value_or(0));
    }
    cause.says = texts_in(table, "says", place);
    cause.calls = texts_in(table, "calls", place);
    cause.names = texts_in(table, "names", place);
    cause.hints = texts_in(table, "hints", place);
    cause.fixes = texts_in(table, "fixes", place);
    cause.useless = texts_in(table, "useless", place);
    for (const auto* cues : {&cause.says, &cause.calls, &cause.names, &cause.hints}) {
      for (const std::string& cue : *cues) check_parts(cue, place);
    }
    for (const std::string& hint : cause.hints) check_hint(hint, cause.codes, place);
    if (cause.says.empty() && cause.calls.empty() && cause.names.empty()) {
      throw ExitError(Exit::Usage, place + ": nothing can speak for it; give it 'says', 'calls' or 'names'");
    }
    if (!cause.has_case && cause.fixes.empty()) {
      throw ExitError(Exit::Usage, place + ": no case of that id; a cause without one needs 'fixes'");
    }
    causes.push_back(std::move(cause));
  }
  return causes;
}

}  // namespace recapture::explain
