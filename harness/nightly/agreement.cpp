#include "harness/nightly/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::nightly {

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
  return has_evidence(row) || is_unconfirmed(run.record, row) || is_contradictory;
}

std::string run_name(const JudgedRun& run) {
  const std::filesystem::path path(run.record.path);
  return escape_control((path.parent_path().filename() / path.filename()).string());
}

Agreement agreement_of(const std::vector<RunOutcome>& outcomes, const TestRuns& runs) {
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
    const auto is_evidence = [](const RunOutcome& outcome) { return has_evidence(*outcome.seen.row); };
    const bool some_are_none =
        std::ranges::any_of(outcomes, is_evidence) && !std::ranges::all_of(outcomes, is_evidence);
    agreement.is_unclear = some_are_none || runs.has_disagreement();
    if (agreement.is_unclear) agreement.words = "runs of this night differ: " + join(results);
  }
  return agreement;
}

}  // namespace recapture::nightly
