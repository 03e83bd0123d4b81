// Pure functions and their tables: from a test's observation to its result, from the evidence to a verdict; also each
// verdict's severity and exit code. No I/O, no clock. docs/reference/verdicts.md shows the same tables, and a test
// keeps them equal.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/exit.h"
#include "harness/model/record.h"
#include "harness/model/result.h"
#include "harness/verdict/evidence.h"
#include "harness/verdict/reason.h"

namespace recapture {

enum class Verdict {
  AsDocumented,
  AsExpected,  // Differs from the document, as expected by an entry.
  NewlyFixed,  // Healthy, but not expected to be.
  Regressed,   // Reproduced, but expected to be gone.
  Changed,
  ControlFails,
  FixFails,
  Inconclusive,
  Insufficient,  // A race that this run did not see: more runs are needed.
  Stale,         // The case has changed since.
  NotRun,        // Planned, without a line in the record.
  Unavailable,
  Missing,    // Unavailable, but required or available before.
  Simulated,  // By our own model, as it should be: independent of the release.
  NotNeeded,  // A fix holds, and every failure of its case is gone there: it may hold by itself.
  NotApplicable,
};
inline constexpr size_t kVerdictCount = static_cast<size_t>(Verdict::NotApplicable) + 1;

// How all outputs show a verdict.
enum class Severity {
  Pass,   // As it should be.
  Skip,   // There was nothing to judge.
  Error,  // It could not be judged.
  Fail,   // It changed.
};

std::string_view to_string(Verdict verdict);
Severity severity_of(Verdict verdict);
bool is_surprise(Verdict verdict);  // Red or an error: a run repeats the test to confirm it, and lists it at the end.

// First table: from how the process ended and the test's self-report to its result.
Result result_of(Kind kind, Ending ending, SelfReport report);

// Second table: from the result to a verdict. `has_expectation`: an entry of cases/expectations.toml names a result for
// this test and machine; `is_expected`: it is this one, with this observation.
Verdict verdict_of(Kind kind, Result result, bool has_expectation, bool is_expected);

// The rules around the second table, in their order: the first that applies decides.
struct Rule {
  std::string_view name;  // As in docs/reference/verdicts.md.
  bool (*applies)(const Evidence& evidence);
  std::optional<Verdict> verdict;    // Nothing: as the second table says.
  std::optional<ReasonKind> reason;  // Shown after the observation.
  bool asks_expectation = false;     // The expectation's reason is the test's.
};
std::span<const Rule> rules();

struct Judgement {
  Verdict verdict = Verdict::Inconclusive;
  std::vector<Reason> reasons = {};
  bool by_expectation = false;  // There is an expectation, and its reason is the test's.
};
Judgement decide(const Evidence& evidence);

// The rows of the tables, for printing.
struct ClassifyRow {
  std::optional<Ending> ending;  // Nothing matches any.
  std::optional<SelfReport> self_report;
  Result reproduces, other;  // For Reproduces, and for Control and Fix.
};
struct JudgeRow {
  Result result;
  Verdict unexpected, expected, otherwise;  // Without an expectation; with one of this result; with one of another.
};
const std::vector<ClassifyRow>& classify_rows();
const std::vector<JudgeRow>& judge_rows();

// The exit code for a set of verdicts; the worst counts: infrastructure, changed, inconclusive, newly fixed, as
// expected, nothing ran.
Exit exit_for(const std::vector<Verdict>& verdicts);

}  // namespace recapture
