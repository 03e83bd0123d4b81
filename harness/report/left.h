// What is left to run for each release on each machine: as counts, as a list, and for programs.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/coverage.h"

namespace recapture::report {

struct LeftOnMachine {
  std::string release;
  MachineId machine;
  LeftToRun left;
  double seconds = 0;  // From now to its end, with kLeftJobs tests at once; to be filled in for a list.
};
inline constexpr size_t kLeftJobs = 8;

// Of every test the catalogue has, on every machine on which a run of all is due. Those of one machine follow each
// other, in the order of the matrix.
std::vector<LeftOnMachine> left_on_machines(const CoverageIndex& index, const std::vector<std::string>& matrix,
                                            const std::vector<WantedTest>& wanted);

// A line a release, below each machine. Empty if there is no machine.
std::string render_left_counts(const std::vector<LeftOnMachine>& all);

// A line a case with its reason, what it takes, and the command that runs it.
std::string render_left(const LeftOnMachine& one);
// {"release", "gpu", "driver", "counts", "seconds", "tests": [{"test", "why", "gpus", "seconds"}]}
Json render_json(const LeftOnMachine& one);

}  // namespace recapture::report
