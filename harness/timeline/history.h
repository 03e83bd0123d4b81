// A test's results over time on each kind of machine: since when and how often, and what else changed with a result.
// Judged by today's rules.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/timeline/runs.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/rate.h"

namespace recapture::timeline {

// Selects runs; empty members select all.
struct Wanted {
  std::string release;  // As in records; a nightly build matches those of other nights.
  std::string driver;
  std::string gpu;    // Part of its name, case-insensitive; "none" for runs without one.
  std::string since;  // A date, "2026-11-21": runs that began on it or later.
};

// A test's outcome in a run.
struct Showing {
  TestVerdict row;
  // Of Reproduces the observation, of an operator its forms: the same result with another one is another outcome.
  std::string signature;
  std::string code;      // Hash of the case's code.
  bool is_rate = false;  // Of a race: one run with it and the next without it is no change.
  std::optional<RateRun> rate;
};

struct Shown {
  const Run* run = nullptr;
  const Showing* what = nullptr;
};

struct Outcome {
  Shown newest;
  const Run* first = nullptr;
  size_t runs = 0;
};

struct Difference {
  std::string what, from, to;  // `from` and `to` are empty if they are not readable: "the case's code".
};

// Where the outcome changed.
struct ResultChange {
  Shown before, after;
  std::vector<Difference> with;
};

// One test on one kind of machine: release, GPU, driver, CUDA runtime, packed or not, variables.
struct TestHistory {
  std::string test;
  Environment machine;              // The environment of its newest run.
  std::vector<Shown> runs;          // By time, at least one.
  std::vector<Outcome> outcomes;    // Newest first.
  std::vector<ResultChange> turns;  // Newest first.
  size_t in_a_row = 0;              // Number of runs with the newest outcome.
  size_t not_run = 0;               // Runs that planned it and have no line for it.
  std::vector<RateRun> rates;       // Of runs with today's code.
};

class HistoryQuery {
 public:
  // Leaves out runs broken on purpose. Points into `runs`.
  HistoryQuery(const std::vector<Run>& runs, const Rules& rules, const Wanted& wanted);

  // For these tests of a case, by test and then by machine. A run that is stored twice, as a shard and in a merged
  // record, counts once. Points into this object and into the runs.
  std::vector<TestHistory> of_case(const std::string& case_id, const std::vector<std::string>& tests) const;

 private:
  struct ShownRun {
    const Run* run = nullptr;
    MachineKind kind;
    std::map<std::string, Showing> showings;  // By test of its plan or results.
    std::map<std::string, size_t> lines;      // By case: how many lines it has for these tests.
  };
  static ShownRun judged(const Run& run, const Rules& rules);
  static std::vector<const ShownRun*> without_copies(const std::vector<const ShownRun*>& runs,
                                                     const std::string& case_id);

  std::vector<ShownRun> runs_;  // By time.
};

}  // namespace recapture::timeline
