// The collected nights below a folder, and the runs of each by place.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/nightly/plan.h"

namespace recapture::nightly {

// A task of a night's plan without a complete record.
struct LackingTask {
  NightTask task;
  bool is_incomplete = false;  // There is a record, but of an incomplete run.
  std::string reason;          // A sentence that begins with the task's name.
};

struct Night {
  std::string path, name, started, collected;
  NightPlan plan;
  std::vector<LackingTask> lacking;
  std::vector<std::string> flaws;    // Its other flaws, a sentence each.
  std::vector<std::string> further;  // Incomplete runs of tasks of which another run is complete; paths below `path`.
};

// From the oldest to the chosen one.
struct Nights {
  std::vector<Night> nights;
  std::vector<std::string> flaws;  // Unreadable files below the folder, and records of nights that are not collected.
  bool is_newest = true;           // The chosen one is.

  const Night& tonight() const { return nights.back(); }
};

// The nights below a folder that `recapture nightly collect` made, up to `choice`: a collected folder, or its name
// below that of all nights; "" is the newest. Throws ExitError: NothingRan if there is no night, Usage if `choice` is
// not one.
Nights read_nights(const std::string& folder, const std::string& choice);

// What an update of the driver or a library does not change: release or build of ci/matrix.toml, GPU, variables, and
// the libraries that the run chose.
MachineKind place_of(const Environment& environment);

// Whether a plan includes this place.
bool is_planned(const NightPlan& plan, const Environment& environment);
bool is_of_place(const NightTask& task, const Environment& environment);

// The runs below a folder by place_of(), newest first.
using RunsByPlace = std::map<MachineKind, std::vector<JudgedRun>>;
RunsByPlace read_runs(const std::string& folder, const compare::CompareContext& background);

// The runs of one place.
std::vector<JudgedRun> read_runs(const std::string& folder, const MachineKind& place,
                                 const compare::CompareContext& background);

}  // namespace recapture::nightly
