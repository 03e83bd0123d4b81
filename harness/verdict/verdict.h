// Two pure functions and their tables: from a test's observation to its result, and from that to a verdict; also each
// verdict's severity and exit code. No I/O, no clock. docs/reference/verdicts.md shows the same tables, and a test
// keeps them equal.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/exit.h"
#include "harness/model/record.h"
#include "harness/model/result.h"

namespace recapture {

struct Expectation;

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

// A test's report about itself. Computed from its observation, so that a better rule re-judges old records.
enum class SelfReport {
  LeftOut,        // A stub was called, or a feature that this CUDA runtime, NCCL or Python lacks.
  Contradictory,  // See Reading::contradiction.
  Reproduced,
  Healthy,
  Different,
  Unseen,     // A race that did not occur.
  Ambiguous,  // It matches both the documented and the healthy signature.
  Mixed,      // The documented failure, and a failed assertion.
  Inapplicable,
  Skipped,
  Passed,
  Failed,
  Nothing,
};
std::string_view to_string(SelfReport report);

// The evaluation of a test's line. The first table gives the result, from how the process ended and its self-report.
struct Reading {
  // Why the parts of the line contradict each other: the exit status or the signal, GoogleTest's result, the test's
  // reports and their number. "" if they agree. A test's own report alone is not enough for any verdict.
  std::string contradiction;
  SelfReport self_report = SelfReport::Nothing;
  Result result = Result::Invalid;
};
Reading read_test(Kind kind, const TestRecord& test);
inline Result classify(Kind kind, const TestRecord& test) { return read_test(kind, test).result; }

// Whether its result is not "unavailable"; takes a fraction of classify()'s time.
bool could_run(const TestRecord& test);

// Second table: from the result and the expectation to a verdict. `expected` is the expectation for this test here, if
// any.
Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen);

// The same for a run broken on purpose: whether the test failed as it must.
Verdict judge_broken(Break broken, Kind kind, const Reading& reading, const TestRecord& test);

// The rows of both tables, for printing.
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
