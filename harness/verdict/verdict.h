// Two pure functions and their tables: what a test's observation amounts to, and what that means here; beside them how
// a verdict is shown and which exit code it is. No input, no output, no clock. docs/reference/verdicts.md
// shows the same tables, and a test keeps them equal.
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
  AsExpected,  // Differs from the document, as an expectation says.
  NewlyFixed,  // Healthy, which was not expected.
  Regressed,   // Reproduced, where it was expected not to.
  Changed,
  ControlFails,
  FixFails,
  Inconclusive,
  Insufficient,  // A race that no try of this run showed: only more runs can tell.
  Stale,         // The case has changed since.
  NotRun,        // Planned, and no line in the record.
  Unavailable,
  Missing,    // Unavailable, where it was demanded or was there before.
  Simulated,  // As it should be, by a model of ours: it says nothing of a release.
  NotApplicable,
};
inline constexpr size_t kVerdictCount = static_cast<size_t>(Verdict::NotApplicable) + 1;

// How every output shows a verdict.
enum class Severity {
  Pass,   // As it should be.
  Skip,   // Nothing was to be judged here.
  Error,  // It could not be judged.
  Fail,   // It is not as it was.
};

std::string_view to_string(Verdict verdict);
Severity severity_of(Verdict verdict);
bool is_surprise(Verdict verdict);  // Red or an error: a run repeats it to confirm it, and names it at its end.

// What a test reported of itself. Computed from what it saw, so that a better rule re-judges old records.
enum class SelfReport {
  LeftOut,        // A stub was called, or something that this CUDA runtime, NCCL or Python does not have.
  Contradictory,  // See Reading::contradiction.
  Reproduced,
  Healthy,
  Different,
  Unseen,     // A race that no try showed.
  Ambiguous,  // It matches both the documented and the healthy signature.
  Mixed,      // The documented failure, and a failed assertion.
  Inapplicable,
  Skipped,
  Passed,
  Failed,
  Nothing,
};
std::string_view to_string(SelfReport report);

// What a test's line amounts to. The first table gives the result: (how the process ended, its self-report) to a
// result.
struct Reading {
  // In words where the parts of the line cannot all be true: the exit status or the signal, GoogleTest's result, what
  // the test said and how often. "" where they agree. A test's own word is not enough for any verdict.
  std::string contradiction;
  SelfReport self_report = SelfReport::Nothing;
  Result result = Result::Invalid;
};
Reading read_test(Kind kind, const TestRecord& test);
inline Result classify(Kind kind, const TestRecord& test) { return read_test(kind, test).result; }

// Whether its result is another than "unavailable"; takes a fraction of classify()'s time.
bool could_run(const TestRecord& test);

// Second table: (result, what an expectation says) to a verdict. `expected` is the expectation for this test here, if
// any.
Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen);

// The same for a run that was broken on purpose: did the test fail as it must?
Verdict judge_broken(Break broken, Kind kind, const Reading& reading, const TestRecord& test);

// The rows of both tables, for those who show them.
struct ClassifyRow {
  std::optional<Ending> ending;  // Nothing stands for any.
  std::optional<SelfReport> self_report;
  Result reproduces, other;  // For Reproduces, and for Control and Fix.
};
struct JudgeRow {
  Result result;
  Verdict unexpected, expected, otherwise;  // No expectation; one that says this; one that says something else.
};
const std::vector<ClassifyRow>& classify_rows();
const std::vector<JudgeRow>& judge_rows();

// The exit code for a set of verdicts; the worst counts: infrastructure, changed, inconclusive, newly fixed, as
// expected, nothing ran.
Exit exit_for(const std::vector<Verdict>& verdicts);

}  // namespace recapture
