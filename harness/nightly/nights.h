// The gathered nights below a folder, and the runs of each by place.
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
  bool is_incomplete = false;  // There is a record, and it is not the whole run.
  std::string reason;          // A sentence that begins with the task's name.
};

struct Night {
  std::string path, name, started, collected;
  NightPlan plan;
  std::vector<LackingTask> lacking;
  std::vector<std::string> flaws;  // What else is wrong with it, a sentence each.
};

// From the oldest to the one that was chosen.
struct Nights {
  std::vector<Night> nights;
  std::vector<std::string> flaws;  // What cannot be read below the folder.

  const Night& tonight() const { return nights.back(); }
};

// Of the nights below a folder that `recapture nightly collect` made those up to `choice`: a gathered folder, or its
// name below that of all nights; "" is the newest. Throws ExitError: NothingRan where there is no night, Usage where
// `choice` is none.
Nights read_nights(const std::string& folder, const std::string& choice);

// What stays the same where a driver or a library is updated: release or build of ci/matrix.toml, GPU, variables, and
// libraries that the run chose.
MachineKind place_of(const Environment& environment);

// Whether a plan has this place.
bool is_planned(const NightPlan& plan, const Environment& environment);
bool is_of_place(const NightTask& task, const Environment& environment);

// The runs below a folder by place_of(), the newest first.
using RunsByPlace = std::map<MachineKind, std::vector<JudgedRun>>;
RunsByPlace read_runs(const std::string& folder, const compare::CompareContext& background);

// The runs of one place alone.
std::vector<JudgedRun> read_runs(const std::string& folder, const MachineKind& place,
                                 const compare::CompareContext& background);

}  // namespace recapture::nightly
