// The case binaries of a build, each with its description.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/model/program.h"
#include "harness/model/record.h"
#include "harness/run/layout.h"

namespace recapture::run {

// Hardware connections to the GPU that a process has unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise.
inline constexpr int kConnectionsOfDriver = 8, kMostConnections = 32;

struct CaseBinary {
  CaseInfo info;
  std::string path;                        // "" if it is not built.
  std::set<std::string> lost;              // Tests that are missing from the build.
  std::string stamp;                       // Its stamp_of() before it was asked.
  int connections = kConnectionsOfDriver;  // To the GPU, for each of its processes.
  // Members of the catalogue that a record lacks: "tags" and "fix_releases", if the case has them.
  Json catalogued = Json::object();
  // Its program in Python, whose tests are among the others. Nothing without LibTorch.
  std::optional<CaseProgram> program = {};
};

// Changes when a file is rewritten or replaced; "" if there is none.
std::string stamp_of(const std::string& path);

// Every case that is built for `release`, by id. Descriptions are cached beside the binaries until these change. Throws
// ExitError(Infrastructure) if nothing is built or its LibTorch cannot be loaded, ExitError(Usage) if two have the same
// name.
std::vector<CaseBinary> catalog(const Layout& places, const std::string& release, const std::string& site);
// Adds cases and tests that should be built for `release` but are not, so that they are reported as missing: those of
// the committed catalogue; for a build without LibTorch, which has only some of them, those of `committed` records.
void add_lost(std::vector<CaseBinary>& built, const Layout& places, const std::string& release,
              const std::vector<Record>& committed);

}  // namespace recapture::run
