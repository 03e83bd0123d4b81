// Judged runs by machine and release: their order, and which of them stand in for a machine's own.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "harness/verdict/judge.h"

namespace recapture {

// By their starts; of two with the same start the one with the later path is the newer.
bool is_newer(const JudgedRun& run, const JudgedRun& than);
void sort_newest_first(std::vector<JudgedRun>& runs);

// By the clocks alone: neither did where both have the same start or none.
bool began_before(const JudgedRun& run, const JudgedRun& other);

// Those on the first run's GPU. The others stand in for what these did not run.
std::vector<const JudgedRun*> own_runs(std::span<const JudgedRun> runs);

// What the runs planned of which only shards are here; of those on the first run's GPU. The runs own the names.
std::unordered_set<std::string_view> planned_with_shards(std::span<const JudgedRun> runs);

// Whether a run was cut short, and these have a line of each test that it planned.
bool is_completed_by(const JudgedRun& run, std::span<const JudgedRun> runs);

// A run reduced to the cases that need no GPU: their results are the same on a machine with a GPU, so they need not
// have run there.
JudgedRun of_host_cases(JudgedRun run);

// Newest first. Those that stand in come last: of the cases that need no GPU, on a machine without one.
struct ReleaseRuns {
  std::string release;
  std::vector<JudgedRun> runs;
};

// One machine (GPU, driver, variables, chosen libraries) with all its runs.
struct MachineRuns {
  Environment environment;                  // Of its newest run.
  std::vector<ReleaseRuns> releases;        // Oldest release first.
  std::vector<ReleaseRuns> other_runtimes;  // Of a release with runs on several CUDA runtimes or NCCLs: all but one.
};

// Machines with a GPU come first. The runs must not contain runs broken on purpose.
std::vector<MachineRuns> runs_by_machine(std::vector<JudgedRun> runs);

}  // namespace recapture
