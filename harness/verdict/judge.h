// The verdict on one test of one record.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/evidence.h"
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
  TestObservation observed;      // Or why there is none, from the record alone.
  int code = 0;                  // CUDA's error number, 0 if none.
  std::string reason;            // Why another result than the documented one is expected,
  std::string source;            // and the number of the upstream change.
  std::optional<Effect> effect;  // The outcome's effect on a program; none without an observation, and
                                 // if the record has an unknown word.
  bool has_raised = false;       // As in Evidence.
  double seconds = 0;
  std::vector<Reason> reasons = {};  // The judge's additions to the observation.
  bool is_guess = false;             // As expected, and that is a guess; as in Evidence.
  bool is_simulated = false;         // By our own model: not counted in any total.
};

struct JudgedRun {
  Record record;
  std::vector<TestVerdict> rows;
  Neighbour neighbour = {};  // Of the record's release and machine.
};

// The rows of one record, in its plan's order. For a run broken on purpose, only whether the broken tests failed as
// they must. A record made with a GPU has no rows of simulated cases.
std::vector<TestVerdict> judge_record(const Record& record, const Rules& rules);
// The same, with the record and its neighbour.
JudgedRun judged(Record record, const Rules& rules);

// The rules about the tests of a case together, in their order.
std::vector<std::string_view> case_rule_names();

// Whether it is inconclusive for want of a run: its confirmations or its control did not run, or a repetition gave
// another result.
bool may_be_decided(const TestVerdict& row);

std::vector<Verdict> verdicts_of(const std::vector<TestVerdict>& rows);

}  // namespace recapture
