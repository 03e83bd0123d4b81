// What can be run: the case binaries of a build, each asked to describe itself.
#pragma once
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/run/places.h"

namespace recapture {

struct CaseBinary {
  CaseInfo info;
  std::string path;
};

// Every case that is built for `release`, by id. Descriptions are kept beside the binaries until these change. Throws
// Stop(Infrastructure) if nothing is built or its LibTorch cannot be loaded.
std::vector<CaseBinary> catalog(const Places& places, const std::string& release, const std::string& site);

}  // namespace recapture
