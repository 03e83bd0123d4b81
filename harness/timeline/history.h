// How a test went over time on each kind of machine: what it showed, since when and how often, and what else changed
// where that changed. Judged by today's rules.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/timeline/runs.h"
#include "harness/verdict/rate.h"
#include "harness/verdict/test_verdict.h"

namespace recapture::timeline {

// Which runs are of interest; what is empty allows all.
struct Wanted {
  std::string release;  // As a record has it; a nightly build stands for those of other nights.
  std::string driver;
  std::string gpu;    // Part of its name, whatever the case; "none" for runs without one.
  std::string since;  // A date, "2026-11-21": runs that began on it or later.
};

// What a run shows of a test.
struct Showing {
  TestVerdict row;
  std::string signature;  // Of Reproduces what was seen: with another one the same result is another outcome.
  std::string code;       // Hash of the case's code.
  bool is_rate = false;   // Of a race: that one run shows it and the next does not is no change.
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
  std::string what, from, to;  // `from` and `to` are empty where they are no words: "the case's code".
};

// Where one outcome followed another.
struct ResultChange {
  Shown before, after;
  std::vector<Difference> with;
};

// One test on one kind of machine: release, GPU, driver, CUDA runtime, packed or not, variables.
struct TestHistory {
  std::string test;
  Environment machine;              // The environment of its newest run.
  std::vector<Shown> runs;          // In the order of time, at least one.
  std::vector<Outcome> outcomes;    // Those of newer runs first.
  std::vector<ResultChange> turns;  // The newest first.
  size_t in_a_row = 0;              // How many runs the newest outcome has lasted.
  size_t not_run = 0;               // Runs that planned it and have no line of it.
  std::vector<RateRun> rates;       // Of the runs of today's code.
};

class HistoryQuery {
 public:
  // Runs broken on purpose do not count. Points into `runs`.
  HistoryQuery(const std::vector<Run>& runs, const Rules& rules, const Wanted& wanted);

  // Of those tests of a case, by test and then by machine. A run that is on file twice, as a shard and in a merged
  // record, counts once. Points into this object and into the runs.
  std::vector<TestHistory> of_case(const std::string& case_id, const std::vector<std::string>& tests) const;

 private:
  struct JudgedRun {
    const Run* run = nullptr;
    MachineKind kind;
    std::map<std::string, Showing> showings;  // By test that it planned or ran.
    std::map<std::string, size_t> lines;      // By case of these tests: how many it has of them.
  };
  static JudgedRun judged(const Run& run, const Rules& rules);
  static std::vector<const JudgedRun*> without_copies(const std::vector<const JudgedRun*>& runs,
                                                      const std::string& case_id);

  std::vector<JudgedRun> runs_;  // In the order of time.
};

}  // namespace recapture::timeline
