// What it means for a night if its runs on one machine disagree on a test. ResultStore decides whether they do.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/pairs.h"
#include "harness/store/result_store.h"

namespace recapture::nightly {

// What one run shows of a test that has no rate.
struct RunOutcome {
  compare::Seen seen;
  compare::Pair pair;  // With its baseline; without a row if there is none.
  bool has_pair = false;
  bool is_red = false;  // Against its baseline, or without one.
};

struct Agreement {
  bool is_split = false;    // Red in some runs only.
  bool is_unclear = false;  // Red in none, and they disagree, or some are no evidence.
  std::string words;        // Names the runs: "red in 1 of 2 runs: …, not in …"; "" if they agree.
};

// Whether this result counts: a clear one, or one that shows that the test does not repeat or contradicts itself.
// What a run that was cut short could not judge does not.
bool counts_for_agreement(const JudgedRun& run, const TestVerdict& row);

// Whether its repetitions had another result.
bool is_unconfirmed(const Record& record, const TestVerdict& row);
// Whether a result is wrong without a comparison: a Control or a Fix that fails.
bool is_wrong_by_itself(const TestVerdict& row);

// `runs` are all runs of the test this night.
Agreement agreement_of(const std::vector<RunOutcome>& outcomes, const TestRuns& runs);

// "2.6.0/nvidia-h200.run-2.jsonl"
std::string run_name(const JudgedRun& run);

}  // namespace recapture::nightly
