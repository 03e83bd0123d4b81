// A line of a record as a value: read once, so that every rule reads a fact and no rule reads a line or a text.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/record.h"
#include "harness/model/result.h"
#include "harness/verdict/operators.h"
#include "harness/verdict/reason.h"
#include "harness/verdict/rules.h"

namespace recapture {

// A test's report about itself. Computed from its observation, so that a better rule re-judges old records.
enum class SelfReport {
  LeftOut,        // A stub was called, or a feature that this CUDA runtime, NCCL or Python lacks.
  Contradictory,  // See Contradiction.
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

// How a line contradicts itself.
enum class ContradictionKind {
  None,
  OnRecord,           // `text`: the runner saw it.
  SeenAndRate,        // An observation and a rate.
  HalfARate,          // Hits without tries, or tries without hits.
  ImpossibleRate,     // `hits` of `tries`.
  EndedEarly,         // A report, and the process ended before the test did.
  UnknownEnd,         // `text` is the word.
  EndAndExit,         // The test's own end, `text`, and the process's.
  SkippedAndEnded,    // A reason to skip, and the end `text`.
  SkippedWithoutWhy,  // The end, and no reason.
  SeenAndSkipped,
  AssertionAndEnd,  // A failed assertion, and the end `text`.
  PassedAndSaw,     // It passed, and saw what `report` says.
  TwoFailures,      // It saw what `report` says, and another assertion failed.
  UnknownEnding,    // Of the process: `text` is the word.
  SeenAndNotStarted,
  KilledFromOutside,  // By a signal that no fault raises.
};
struct Contradiction {
  ContradictionKind kind = ContradictionKind::None;
  std::string text = {};
  Ending ending = Ending::Exited;  // Of the process, and
  int code = 0;                    // its status or signal.
  bool was_skipped = false;        // EndedEarly: the report was that it was skipped, else what it saw.
  int hits = 0, tries = 0;
  SelfReport report = SelfReport::Nothing;

  bool operator==(const Contradiction&) const = default;
  explicit operator bool() const { return kind != ContradictionKind::None; }
};

// What a line shows, as an output describes it.
enum class TestObservationKind {
  Nothing,
  Text,           // `text`: the test's own, or a library's.
  MissingModule,  // `text`: the Python module.
  Contradictory,
  Mixed,          // What is documented, and the failed assertion `text`.
  Rate,           // `hits` of `tries`.
  Culprit,        // `text`, raised by a call.
  Operator,       // The forms that are not fine; none of them if all are.
  NoOperator,     // No form was tried.
  NotApplicable,  // `text`: what the release lacks.
};
struct TestObservation {
  struct Detail {
    Contradiction contradiction = {};
    std::string api = {}, thread = {};  // The call, and the kind of its thread.
    std::optional<int> rank = {};       // Of its process, if it was one of several.
    std::vector<FormOutcome> forms = {};
  };
  TestObservationKind kind = TestObservationKind::Nothing;
  std::string text = {};
  int hits = 0, tries = 0;
  std::shared_ptr<const Detail> detail = {};  // Few rows have any.

  bool is_empty() const { return kind == TestObservationKind::Nothing; }
};

// A line by itself.
struct Reading {
  // Whether the exit status or signal, GoogleTest's result, the test's reports and their number contradict each other.
  // A test's own report alone is not enough for any verdict.
  Contradiction contradiction = {};
  SelfReport self_report = SelfReport::Nothing;
  Result result = Result::Invalid;
};
Reading read_test(Kind kind, const TestRecord& test);
inline Result classify(Kind kind, const TestRecord& test) { return read_test(kind, test).result; }

// Whether its result is not "unavailable"; takes a fraction of classify()'s time.
bool could_run(const TestRecord& test);

// The text that an expectation's pattern must match: a test's observation; of a failed control or fix its first
// assertion without the place; of a crash before any observation the signal.
std::string shown(Result result, const TestRecord& test);

// Whether a result, and what is shown of it, are what an entry of cases/expectations.toml expects.
bool is_as_expected(const Expectation& expected, Result result, const std::string& shown);

// Everything that a verdict depends on.
struct Evidence {
  Kind kind = Kind::Control;
  Reading reading = {};
  TestObservation observation = {};
  std::string shown = {};
  std::optional<Effect> effect = {};  // None without an observation.
  bool has_raised = false;            // The line itself shows an error or an exception.
  std::string release = {};
  bool is_stale = false;  // The case has changed since. Then nothing below is known.

  const Expectation* expectation = nullptr;  // The one for this test and machine.
  bool is_expected = false;                  // The result, and what it shows, are what it expects.
  bool is_guess = false;                     // It names no record of an older or of a newer release, or it is that of
                                             // the neighbour.

  size_t repetitions = 0;
  bool repetitions_agree = true;
  bool is_lone_crash = false;  // A sample of an operator crashed or hung, and no repetition has shown that again.

  bool needs_gpu = false, has_gpu = false;
  bool is_gpu_demanded = false;
  SkipReason skip_reason = SkipReason::None;
  bool was_started = true;
  bool ran_before = false;        // On such a machine, by a committed record. Known only of what is unavailable.
  bool lacks_culprit = false;     // It must name a call, none is recorded, and that is demanded.
  std::string recorder_off = {};  // Why the recorder was off.

  Break broken = Break::Nothing;
  bool left_remedy_out = false;
  bool is_false_rate = false;     // With a false value a rate is unchanged, and its test fails on purpose.
  bool is_break_visible = false;  // Of an operator.
  bool is_failure_gone =
      false;  // Expected of every failure of the case, on this machine. Known only of a run without remedies.
};
// `neighbour` is the record's; `is_stale` says whether the test's code has changed, where that is known.
Evidence read_evidence(Kind kind, const Record& record, const TestRecord& test, const Rules& rules,
                       const Neighbour& neighbour = {}, std::optional<bool> is_stale = {});

}  // namespace recapture
