// What can be run: the case binaries of a build, each asked to describe itself.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/layout.h"

namespace recapture::run {

struct CaseBinary {
  CaseInfo info;
  std::string path;            // "" if it is not built.
  std::set<std::string> lost;  // Of its tests, those that are not in the build.
  std::string stamp;           // stamp_of() it, from before it was asked.
  // What the catalogue has of a case and a record has not: "tags" and "fix_releases", where it names them.
  Json catalogued = Json::object();
};

// Differs once a file has been written again or replaced; "" of none.
std::string stamp_of(const std::string& path);

// Every case that is built for `release`, by id. Descriptions are kept beside the binaries until these change. Throws
// ExitError(Infrastructure) if nothing is built or its LibTorch cannot be loaded, ExitError(Usage) if two have one
// name.
std::vector<CaseBinary> catalog(const Layout& places, const std::string& release, const std::string& site);
// Adds what should be built for `release` and is not, so that it cannot vanish unnoticed: the cases and tests of the
// committed catalogue; for a build without LibTorch, which has only some of them, those that `committed` records have.
void add_lost(std::vector<CaseBinary>& built, const Layout& places, const std::string& release,
              const std::vector<Record>& committed);

}  // namespace recapture::run
