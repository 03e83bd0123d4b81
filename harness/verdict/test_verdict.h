// One test of one record, judged.
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
  bool ran = false;  // False: there is no line of it in the record.
  Verdict verdict = Verdict::NotRun;
  std::string observed;          // What was seen, or why not, by the record alone.
  int code = 0;                  // CUDA's error number, 0 if none.
  std::string reason;            // Where another result than the document's is expected: why,
  std::string source;            // and the number of the change upstream.
  std::optional<Effect> effect;  // What this outcome does to a program; none where nothing was observed, and
                                 // where the record has a word that is not known.
  double seconds = 0;
  std::vector<Reason> reasons = {};  // What the judge adds to what was seen.
  bool is_simulated = false;         // By a model of ours: it counts in no total.
};

// What was seen and each of the reasons, as every output shows it: "900; the recorder saw no call".
std::string render_observed(const TestVerdict& row);

// What an expectation's pattern is held against: what the test saw; of a control or a fix that fails its first
// assertion, without its place; of a crash before anything was seen the signal.
std::string shown(Result result, const TestRecord& test);

// The rows of one record, in its plan's order. Of a run broken on purpose only whether what was broken failed as it
// must. A record that was made with a GPU has no rows of simulated cases.
std::vector<TestVerdict> judge_record(const Record& record, const Rules& rules);

std::vector<Verdict> verdicts_of(const std::vector<TestVerdict>& rows);

}  // namespace recapture
