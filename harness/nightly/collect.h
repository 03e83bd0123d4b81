// One night out of what many machines left behind, and what is missing of it.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/nightly/plan.h"

namespace recapture::nightly {

// Beside the records of a gathered night: {"night":1, "started", "collected", "plan", "lacks", "lacking", "notes"}.
// "started" is by the clock of a machine that ran, "collected" by that of the one that collected it first. "lacking" is
// which tasks those of the lacks are that are of a task: [{"release","gpu","shard","state","lack"}], "lack" its index.
inline constexpr const char* kNightFile = "night.json";
inline constexpr const char* kMissing = "missing";        // The task left no record,
inline constexpr const char* kIncomplete = "incomplete";  // or one that is not the whole run.
// Behind the name of a night: what is being gathered, and what was there before it. Left only by one that was killed.
inline constexpr const char* kPartial = ".partial";
inline constexpr const char* kBefore = ".before";

struct Gathered {
  size_t whole = 0;                // Tasks of which a whole run was found.
  std::vector<std::string> lacks;  // What keeps it from being the whole night, a sentence each.
  std::vector<std::string> notes;  // What else there was: copies, further runs, records of no task.
};

// Puts the records below `folders` that are of the plan's tasks into `out`, named as those in reports/ are, shards as
// one record. A run that is there twice counts once; of several runs of one task the newest whole one counts, and where
// none is whole, the one that got farthest. `out` appears whole or not at all, in the place of an earlier gathered
// night of that name. A run that left out tests of the catalogue is not whole. Where there is no record at all the
// night is made too, so that what died as a whole is not forgotten.
//
// Throws ExitError: Usage where `out` is something else or there is no such folder, Infrastructure where it cannot be
// written.
Gathered gather(const std::string& out, const std::vector<std::string>& folders, const NightPlan& plan,
                const Catalogue& catalogue);

}  // namespace recapture::nightly
