// The verdict on one test of one record.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/reason.h"
#include "harness/verdict/rules.h"
#include "harness/verdict/verdict.h"

namespace recapture {

struct TestVerdict {
  std::string test, case_id, name, family, release, gpu, driver;
  Kind kind = Kind::Control;
  Result result = Result::Invalid;
  bool ran = false;  // False: it has no line in the record.
  Verdict verdict = Verdict::NotRun;
  std::string observed;          // The observation, or why there is none, from the record alone.
  int code = 0;                  // CUDA's error number, 0 if none.
  std::string reason;            // Why another result than the documented one is expected,
  std::string source;            // and the number of the upstream change.
  std::optional<Effect> effect;  // The outcome's effect on a program; none without an observation, and
                                 // if the record has an unknown word.
  double seconds = 0;
  std::vector<Reason> reasons = {};  // The judge's additions to the observation.
  bool is_simulated = false;         // By our own model: not counted in any total.
};

// The observation and each reason, as all outputs show it: "900; the recorder saw no call".
std::string render_observed(const TestVerdict& row);

// The text that an expectation's pattern must match: a test's observation; of a failed control or fix its first
// assertion without the place; of a crash before any observation the signal.
std::string shown(Result result, const TestRecord& test);

// The rows of one record, in its plan's order. For a run broken on purpose, only whether the broken tests failed as
// they must. A record made with a GPU has no rows of simulated cases.
std::vector<TestVerdict> judge_record(const Record& record, const Rules& rules);

// Whether it is inconclusive for want of a run: its confirmations or its control did not run, or a repetition gave
// another result.
bool may_be_decided(const TestVerdict& row);

std::vector<Verdict> verdicts_of(const std::vector<TestVerdict>& rows);

}  // namespace recapture
