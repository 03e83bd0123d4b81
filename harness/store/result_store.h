// All runs of a test, and whether they agree: the one place that knows copies, machines, clocks and runs that disagree.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/verdict/judge.h"

namespace recapture {

// A run's result of a test. Points into the run.
struct TestRun {
  const JudgedRun* run = nullptr;
  const TestVerdict* row = nullptr;
  const TestRecord* line = nullptr;
  std::string code;      // Hash of the case's code; "" if the record does not describe the case.
  bool is_rate = false;  // Of a race: seen in one run and not in the next is no disagreement.

  const Environment& environment() const { return run->record.environment; }
};

// Whether a row is evidence about the test: it ran to a result of its own. Not if it was unavailable, was the test's
// own fault, is stale, or disagrees with its own repetitions.
bool has_evidence(const TestVerdict& row);

// Whether two runs show the same: the same result with the same effect on a program, both or neither as it should be;
// or a race seen and not seen.
bool agree(const TestRun& a, const TestRun& b);

// Runs of a test that agree, newest first.
struct Agreeing {
  std::vector<TestRun> runs;

  const TestRun& newest() const { return runs.front(); }
};

// The runs of one test, newest first and each once.
struct TestRuns {
  std::string test;
  std::vector<TestRun> runs;     // With evidence, of the code that the newest of them has.
  std::vector<TestRun> others;   // With evidence, of other code.
  std::vector<TestRun> without;  // Planned or tried, and no evidence.

  // All of them, oldest first.
  std::vector<TestRun> all() const;
  // All of them, newest first. A run on another GPU stands in for what this one did not run: of the same code it comes
  // after those of this GPU.
  std::vector<TestRun> newest_first(const std::string& gpu) const;

  // By what they show, in the order of the newest run of each; more than one if runs disagree.
  std::vector<Agreeing> outcomes() const;
  bool has_disagreement() const { return outcomes().size() > 1; }
  // Of the runs with the worst effect on a program the newest; nullptr without evidence.
  const TestRun* worst() const;
  // Whether a newer run has evidence of other code. False if one of the two has no code.
  bool is_replaced(const TestRun& run) const;
};

// Judged runs, in the order of their starts. Owns nothing: the runs must outlive it.
//
// A clock decides only an order that is shown. Whether runs agree does not depend on it, so a run that began in the
// same second or a machine with a wrong clock hides nothing.
class ResultStore {
 public:
  using Filter = std::function<bool(const Environment& environment)>;
  using RowFilter = std::function<bool(const JudgedRun& run, const TestVerdict& row)>;

  // `wanted` leaves runs out, and `counts` results; without them all count. Runs that were broken on purpose never do.
  explicit ResultStore(std::span<const JudgedRun> runs, const Filter& wanted = nullptr,
                       const RowFilter& counts = nullptr);
  explicit ResultStore(std::span<const JudgedRun* const> runs, const Filter& wanted = nullptr);

  // Newest first. A copy of a run, or a shard whose tests a merged record also has, is still there: it is left out test
  // by test, since a copy may have been cut short.
  const std::vector<const JudgedRun*>& runs() const { return runs_; }
  // The earlier runs on the same kind of machine, newest first, as many as have a result of each of its tests or all;
  // none for a run without tests.
  std::vector<const JudgedRun*> before(const JudgedRun& run) const;
  // The kinds of machine with runs.
  std::vector<MachineKind> machines() const;
  // The tests that a run planned or tried, sorted.
  std::vector<std::string> tests() const;

  // All runs of a test, on any machine.
  TestRuns of(std::string_view test) const;
  // On one kind of machine: release, GPU, driver, CUDA runtime, variables, chosen libraries.
  TestRuns of(std::string_view test, const MachineKind& machine) const;

  // On each kind of machine with runs of it.
  std::vector<std::pair<MachineKind, TestRuns>> by_machine(std::string_view test) const;

  // The tests of which runs of one code on one kind of machine disagree, by test and machine.
  std::vector<TestRuns> disagreements() const;

 private:
  struct Entry {
    const JudgedRun* run;
    const TestVerdict* row;
  };
  TestRuns found(std::string_view test, const MachineKind* machine) const;
  static TestRuns runs_in(std::string_view test, const std::vector<Entry>& entries);
  void index(const RowFilter& counts);

  std::vector<const JudgedRun*> runs_;
  std::map<std::string_view, std::vector<Entry>> by_test_;  // The rows own the names.
};

}  // namespace recapture
