// How often a race shows, and how far that can be trusted.
//
// The run is the unit. Tries within one run share a process, a GPU's state and a scheduler's mood: of 111 pairs of
// records of one machine, Fisher's test on single tries told 29 apart at p < 0.01. So every run counts once, by one
// number, and what runs differ by is the error: the analysis of cluster summaries (Hayes and Moulton, Cluster
// Randomised Trials, chapter 10).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"

namespace recapture {

// What ended the tries of a run.
enum class Stopping {
  Tries,    // Their number was fixed: the share of hits varies.
  Hits,     // The hits were: how many tries they took varies.
  Unknown,  // The record does not say.
};

// Of a rule that is known by its name, as a case's description and a record have it: "300 captures". Unknown of any
// other text.
Stopping stopping_of(std::string_view rule, int hits);

struct RateRun {
  int hits = 0, tries = 0;
  Stopping stopping = Stopping::Tries;
};

// One race on one kind of machine, of one code.
struct RatePool {
  std::string test, release, machine;  // The machine's label begins with the release.
  std::vector<RateRun> runs;           // In the order of time.
};

// Fewer runs say nothing of a rate. With two, t is 12.7 and with four 3.2, so that an interval shows little but its own
// width; and two sets of five are the smallest for which the test of changed() can reach p < 0.01.
inline constexpr size_t kFewestRuns = 5;

struct Rate {
  double share = 0, low = 0, high = 0;  // Of the tries, from 0 to 1; the interval has 95 %.
};

// Nothing of fewer runs, of runs whose stopping is unknown, and of runs that their limit ended before the first hit.
std::optional<Rate> rate_of(const std::vector<RateRun>& runs);

// Whether two sets of runs differ, by the exact rank-sum test (Mann and Whitney, 1947) on the runs at p < 0.01. Nothing
// where either set is too small. It takes the order of the runs alone, so it needs no model of how they vary.
std::optional<bool> changed(const std::vector<RateRun>& before, const std::vector<RateRun>& after);

// What is known of a race, in words: "seen in 5 of 5 runs; 34 % of the tries, 28 to 41 %", or that this is too little
// and how many more runs are needed.
std::string describe(const std::vector<RateRun>& runs);

// What a test's line says of a rate. Nothing where it does not count: a run broken on purpose, one shard of several
// (beside which others may have run), what is stale and what contradicts itself.
std::optional<RateRun> rate_run(const Record& record, const TestRecord& test, const Rules& rules);

// All that records have of rates, by test, in the order of releases. A run that is on file twice counts once.
std::vector<RatePool> rate_pools(const std::vector<Record>& records, const Rules& rules);

// The 97.5 % point of Student's t (Abramowitz and Stegun 26.7.5), within 0.001 from 4 degrees of freedom on.
double t_quantile(size_t degrees);

}  // namespace recapture
