// The runs of a folder by their first lines, and which of them count: by release, machine, libraries, order and copies.
// A record has megabytes, so only those that count are read; ResultStore has what they show.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/model/environment.h"
#include "harness/model/origin.h"

namespace recapture {

struct RunHead {
  std::string path;
  Environment environment;
};

// Those below a folder, newest first; without those that were broken on purpose. `read` is environment_of(), or has
// what was read before.
using ReadEnvironment = std::function<const Environment&(const std::string& path)>;
std::vector<RunHead> heads_below(const std::string& folder, const ReadEnvironment& read);

void sort_newest_first(std::vector<RunHead>& heads);

// Each run once: a copy or a shard of a merged record is no run before it.
std::vector<RunHead> without_copies(const std::vector<RunHead>& heads);

// Older runs did not record the release's own NCCL.
std::string version_in(const Environment& environment, const OverridableLibrary& library);

bool have_same_libraries(const Environment& a, const Environment& b);

// Whether two runs can be compared if one of them is counted from the newest: on one machine, in one release line, with
// the same libraries or each with its release's own.
bool are_alike(const Environment& a, const Environment& b);

// Versions that a user chose, by OverridableLibrary::key; "" as if it were absent.
using ChosenLibraries = std::map<std::string, std::string>;
std::string version_in(const ChosenLibraries& chosen, const OverridableLibrary& library);

// Whether one of the runs had the chosen version; false without a choice.
bool has_chosen(const std::vector<RunHead>& heads, const OverridableLibrary& library, const ChosenLibraries& chosen);

// Libraries whose chosen version neither side ran with.
std::vector<const OverridableLibrary*> chosen_in_vain(const std::vector<RunHead>& older,
                                                      const std::vector<RunHead>& newer, const ChosenLibraries& chosen);

// Those on a machine: MachineId::comparable().
std::vector<RunHead> on_machine(const MachineId& machine, std::vector<RunHead> heads);
std::set<MachineId> machines_of(const std::vector<RunHead>& heads);

// Of a machine's runs, those with the chosen libraries, else those with the release's own, else those with the newest
// run's.
std::vector<RunHead> counting_heads(std::vector<RunHead> heads, const ChosenLibraries& chosen);
// The runs that count on each machine, newest first.
std::vector<RunHead> counting_heads_anywhere(const std::vector<RunHead>& heads, const ChosenLibraries& chosen);

// The newest of those that ran with every chosen version that one of them has.
const RunHead& newest_with(const std::vector<RunHead>& heads, const ChosenLibraries& chosen);

// Those that are older than each run of the other side that is alike `kind`.
std::vector<RunHead> older_than(const std::vector<RunHead>& heads, const std::vector<RunHead>& others,
                                const Environment& kind);

// Whether a run counts beside those of a machine: on another GPU or with another driver, and otherwise alike, with the
// release's own libraries.
bool is_elsewhere(const Environment& environment, const MachineId& machine);
// Of a side's runs on all machines, those.
std::vector<std::string> paths_elsewhere(const std::vector<RunHead>& heads, const MachineId& machine);

// Of several machines that ran both sides, the one with the smallest rank is used: it has a GPU, nobody sent its runs,
// it has the requested libraries or the releases' own, the most tests that both sides ran as they are today, the most
// runs.
struct MachineRank {
  bool is_host = false, was_sent = false;
  size_t unwanted_libraries = 0, tests_less = 0, runs_less = 0;

  auto operator<=>(const MachineRank&) const = default;
};

// `from` and `to` are environments of a counted run of each side, `tests` the number of tests that both ran
// (comparable_tests()), `runs` that of the side with fewer.
MachineRank rank_machine(const Environment& from, const Environment& to, size_t tests, size_t runs,
                         const ChosenLibraries& chosen = {});

// Whether these are two GPUs with the same driver and variables: results of one may fill in for the other.
bool may_fill_in(const MachineId& a, const MachineId& b);

}  // namespace recapture
