// Combines the records of a night's machines, and lists what is missing.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/nightly/plan.h"

namespace recapture::nightly {

// Beside the records of a gathered night: {"night":1, "started", "collected", "plan", "lacks", "lacking", "further",
// "notes"}.
// "started" is by the clock of a machine that ran, "collected" by that of the one that collected it first. "lacking" is
// which tasks those of the lacks are that are of a task: [{"release","gpu","shard","state","lack"}], "lack" its index;
// "further" are the incomplete runs of tasks of which another run is complete.
inline constexpr const char* kNightFile = "night.json";
inline constexpr const char* kMissing = "missing";        // The task left no record,
inline constexpr const char* kIncomplete = "incomplete";  // or an incomplete one.
// Suffix of a night's folder while it is collected or replaced. A killed process leaves it.
inline constexpr const char* kPartial = ".partial";
inline constexpr const char* kBefore = ".before";

struct Gathered {
  size_t whole = 0;                // Tasks with a complete run.
  std::vector<std::string> lacks;  // Why the night is incomplete, a sentence each.
  std::vector<std::string> notes;  // Other findings: copies, further runs, records of no task.
};

// Writes the records below `folders` that belong to the plan's tasks into `out`, named as in reports/, with shards
// merged. Duplicates of a run count once. Of several runs of one task, the newest complete one is its record; if none
// is complete, the one that got farthest. The others are written beside it, since every run counts. `out` is replaced
// atomically if it is an earlier collected night. A run that left out tests of the catalogue is incomplete. A night
// without any record is written too, so that its failure is reported.
//
// Throws ExitError: Usage if `out` is something else or a folder is missing, Infrastructure if it cannot be written.
Gathered gather(const std::string& out, const std::vector<std::string>& folders, const NightPlan& plan,
                const Catalogue& catalogue);

}  // namespace recapture::nightly
