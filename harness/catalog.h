// What can be run: the case binaries of a build, each asked to describe itself, and the machine they would run on.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/record.h"
#include "harness/spawn.h"

namespace recapture {

// Where things are. `root` is Recapture's own tree; `build` the folder of this program.
struct Places {
  std::string root, build;
  static Places find(const std::string& root_option);  // Throws Stop(Usage) if there is no tree to be found.
  std::string cases_of(const std::string& release) const { return build + "/" + release + "/cases"; }
};

// The releases that cases are built for, oldest first.
std::vector<std::string> built_releases(const Places& places);

struct CaseBinary {
  CaseInfo info;
  std::string path;
};

// The variables that make the case binaries load the LibTorch in `site` (its site-packages folder) instead of the one
// they were built against. Empty for none.
std::map<std::string, std::string> libtorch_variables(const std::string& site);

// Every case that is built for `release`, by id. Descriptions are kept beside the binaries until these change. Throws
// Stop(Infrastructure) if nothing is built or its LibTorch cannot be loaded.
std::vector<CaseBinary> catalog(const Places& places, const std::string& release, const std::string& site);

// The cases' hashes as the tree has them now, by id. Empty if the tree has no cases.
std::map<std::string, std::string> source_hashes(const std::string& root);

// The machine: gpu, gpus, driver, cuda_driver, and "canary": "ok", "none" (no GPU; "reason" says why) or what went
// wrong.
Json ask_canary(const Places& places);

}  // namespace recapture
