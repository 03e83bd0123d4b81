#include "harness/nightly/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::nightly {

bool is_clear(const TestVerdict& row) {
  return row.ran && row.result != Result::Invalid && row.result != Result::Unavailable &&
         row.verdict != Verdict::Inconclusive && row.verdict != Verdict::Missing;
}

bool is_unconfirmed(const Record& record, const TestVerdict& row) {
  return row.ran && row.verdict == Verdict::Inconclusive && row.result != Result::Invalid &&
         record.confirmations.count(row.test) != 0;
}

bool is_wrong_by_itself(const TestVerdict& row) {
  const bool is_of_such_a_kind = row.kind == Kind::Control || row.kind == Kind::Fix;
  return is_of_such_a_kind && severity_of(row.verdict) == Severity::Fail && row.verdict != Verdict::NewlyFixed;
}

bool counts_for_agreement(const JudgedRun& run, const TestVerdict& row) {
  const bool is_contradictory = row.ran && row.result == Result::Invalid && run.record.is_complete();
  return is_clear(row) || is_unconfirmed(run.record, row) || is_contradictory;
}

std::string run_name(const JudgedRun& run) {
  const std::filesystem::path path(run.record.path);
  return escape_control((path.parent_path().filename() / path.filename()).string());
}

Agreement agreement_of(const std::vector<RunOutcome>& outcomes) {
  Agreement agreement;
  if (outcomes.size() < 2) return agreement;
  std::vector<std::string> red, other, results;
  for (const RunOutcome& outcome : outcomes) {
    const std::string name = run_name(*outcome.seen.run);
    (outcome.is_red ? red : other).push_back(name);
    results.push_back(fmt::format("{} in {}", to_string(outcome.seen.row->verdict), name));
  }
  if (!red.empty() && !other.empty()) {
    agreement.is_split = true;
    agreement.words = fmt::format("red in {} of {}: {}, not in {}", red.size(), plural(outcomes.size(), "run"),
                                  join(red), join(other));
  } else if (red.empty()) {
    const auto result = [](const RunOutcome& outcome) {
      return std::tuple(outcome.seen.row->result, outcome.seen.row->verdict, outcome.seen.row->effect);
    };
    agreement.is_unclear = std::ranges::any_of(
        outcomes, [&](const RunOutcome& outcome) { return result(outcome) != result(outcomes.front()); });
    if (agreement.is_unclear) agreement.words = "runs of this night differ: " + join(results);
  }
  return agreement;
}

}  // namespace recapture::nightly
