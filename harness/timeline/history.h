// A test's results over time on each kind of machine: since when and how often, and what else changed with a result.
// Judged by today's rules.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/result_store.h"
#include "harness/verdict/rate.h"

namespace recapture::timeline {

// Selects runs; empty members select all.
struct Wanted {
  std::string release;  // As in records; a nightly build matches those of other nights.
  std::string driver;
  std::string gpu;    // As GpuFilter has it; "none" for runs without one.
  std::string since;  // A date, "2026-11-21": runs that began on it or later.
};

// A run's result of a test.
struct Shown {
  TestRun run;
  // Of Reproduces the observation, of an operator its forms: the same result with another one is another outcome.
  std::string signature;
  std::optional<RateRun> rate;

  const TestVerdict& row() const { return *run.row; }
  const Record& record() const { return run.run->record; }
  const std::string& started() const { return run.environment().started; }
};

struct Outcome {
  Shown newest, first;
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
  // Leaves out runs broken on purpose.
  HistoryQuery(std::vector<Record> records, const Rules& rules, const Wanted& wanted);

  // For these tests, by test and then by machine. Points into this object.
  std::vector<TestHistory> of(const std::vector<std::string>& tests) const;

 private:
  Shown shown(const TestRun& run) const;

  const Rules& rules_;
  std::vector<JudgedRun> runs_;
  ResultStore store_;
};

}  // namespace recapture::timeline
