// What is left to run for each release on each machine: as counts, as a list, and as JSON.
#pragma once
#include <string>
#include <vector>

#include "harness/store/coverage.h"

namespace recapture::report {

struct LeftOnMachine {
  std::string release;
  MachineId machine;
  LeftToRun left;
  double seconds = 0;  // Estimate with kLeftJobs tests in parallel; filled in for a list.
};
inline constexpr size_t kLeftJobs = 8;

// For every test of the catalogue on every machine that needs a complete run. Entries of one machine are adjacent, in
// the order of the matrix.
std::vector<LeftOnMachine> left_on_machines(const CoverageIndex& index, const std::vector<std::string>& matrix,
                                            const std::vector<WantedTest>& wanted);

// A line for each release, below each machine. Empty if there is no machine.
std::string render_left_counts(const std::vector<LeftOnMachine>& all);

// A line for each case with its reason, its duration, and the command that runs it.
std::string render_left(const LeftOnMachine& one);
// What waits for a machine with so many GPUs, of lists that have no other tests: below each machine a line for each
// case, with its reason and its releases. Adjacent releases of the matrix form a range.
std::string render_waiting(const std::vector<LeftOnMachine>& all, int gpus, const std::vector<std::string>& matrix);

// For each release where a failure occurs last: how many fixes were not seen to fail there without their remedy, and
// the command that runs them. Empty if there are none.
std::string render_unbroken(const std::vector<UnbrokenFix>& fixes);

// {"release", "gpu", "driver", "counts", "seconds", "tests": [{"test", "why", "gpus", "seconds"}], "unbroken_fixes":
// [test]}, of all the fixes those whose newest failure is in this release.
Json render_json(const LeftOnMachine& one, const std::vector<UnbrokenFix>& fixes);

}  // namespace recapture::report
