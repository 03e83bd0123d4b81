// How often a race occurs, with its confidence interval.
//
// The run is the unit. Tries within one run share a process, a GPU's state and the scheduling: of 111 pairs of records
// of one machine, Fisher's test on single tries distinguished 29 at p < 0.01. So every run counts once, with one
// number, and the differences between runs are the error: the analysis of cluster summaries (Hayes and Moulton, Cluster
// Randomised Trials, chapter 10).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"

namespace recapture {

// What ended the tries of a run.
enum class Stopping {
  Tries,    // A fixed number of tries: the number of hits varies.
  Hits,     // A fixed number of hits: the number of tries varies.
  Rule,     // Enough hits or enough tries, whichever came first: race_rule.h.
  Unknown,  // Not recorded.
};

// Of a test's line with a rate; Unknown if its rule is not on record or only a newer program knows it.
Stopping stopping_of(const TestRecord& test);

struct RateRun {
  int hits = 0, tries = 0;
  Stopping stopping = Stopping::Tries;
};

// Fewer runs give no rate. With two, t is 12.7 and with four 3.2, so the interval is too wide to be useful; and two
// sets of five are the smallest for which the test of changed() can reach p < 0.01.
inline constexpr size_t kFewestRuns = 5;

struct Rate {
  double share = 0, low = 0, high = 0;  // From 0 to 1, of the tries; a 95 % interval.
};

// Leaves out runs with an unknown stopping rule. Nothing for fewer runs than kFewestRuns, and if a run reached its
// limit before the first hit. Nothing for runs with different stopping rules, except fixed tries beside those by the
// rule.
std::optional<Rate> rate_of(const std::vector<RateRun>& runs);

// Whether two sets of runs differ, by the exact rank-sum test (Mann and Whitney, 1947) on the runs at p < 0.01. Nothing
// if either set is too small. It uses only the order of the runs, so it needs no model of how they vary. A run that
// reached its limit before the first hit is below one with a hit in as many tries, and in no order to any other. A run
// of fixed tries and one by the rule are in an order if their intervals are apart.
std::optional<bool> changed(const std::vector<RateRun>& before, const std::vector<RateRun>& after);

// Whether the later rate is higher beyond doubt. With enough runs, by changed(). With fewer, the 99.9 % interval of
// each later run must lie above ten times that of each earlier one: single runs of one race differ by five such times.
// Never of tries that one hit ended, whose number varies by a factor of a thousand.
bool is_surely_higher(const std::vector<RateRun>& before, const std::vector<RateRun>& after);

// Why runs have no rate.
enum class RateGap {
  None,            // They have one.
  TooFewRuns,      // `needed` more are needed.
  DifferentRules,  // Different rules ended their tries.
  ReachedLimit,    // `censored` of them reached their limit before the first hit.
};
struct RateSummary {
  size_t runs = 0, seen = 0;  // In how many of the runs it occurred.
  std::optional<Rate> rate = {};
  RateGap gap = RateGap::None;
  size_t needed = 0, without_rule = 0, censored = 0;  // `without_rule`: what ended their tries is not recorded.
};
RateSummary summary_of(const std::vector<RateRun>& runs);

// The rate in a test's line. Nothing if it does not count: a run broken on purpose, one shard of several (other shards
// may have run beside it), a stale or a contradictory result.
std::optional<RateRun> rate_run(const Record& record, const TestRecord& test, const Rules& rules);

// The 97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5), within 0.001 from 4 degrees of freedom on.
double t_quantile(size_t degrees);

}  // namespace recapture
