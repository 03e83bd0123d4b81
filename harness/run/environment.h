// Collects the environment of a run: the first line of its record.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/layout.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/run/run.h"

namespace recapture::run {

struct ProbedEnvironment {
  Json environment;
  Anonymous anonymous;             // Replaces this machine's folders.
  std::vector<std::string> notes;  // Notes on the machine for the user, before the run.
  std::string lacks;               // Why no test can be loaded with a chosen library.
  std::string preload;             // The chosen libraries, for LD_PRELOAD.
  std::string site;                // The folder of LibTorch's Python package.
};

// Variables for tests beyond those of every program: LibTorch's folder, libraries to preload, the cache that ci/nemo
// fills, and those of --env. Throws ExitError(Infrastructure) if LibTorch is not there.
std::map<std::string, std::string> variables_of_tests(const RunOptions& options, const std::string& preload);

// Parses NAME=VALUE of --env. Throws ExitError(Usage) for a variable that the runner, the machine or the test sets.
std::pair<std::string, std::string> read_variable(const std::string& text);

// Variables by name, for a record: a value that names a folder or a GPU of this machine is hashed.
Json recorded(const std::map<std::string, std::string>& variables);
inline bool is_hashed(const std::string& value) { return value.rfind("hash ", 0) == 0; }

// The requirements of a run, for its record: "gpu", "recorder", "gpu,recorder" or "".
std::string describe(const Requirements& demands);

// Whether two spellings name the same version of a library: 12.9 and 12.9.79.
bool is_same_version(const std::string& one, const std::string& other);

// The folder of tools/libtorch --cache; "" if no variable names the user's caches.
std::string cache_folder();

// The revision of the tree in this folder; "unknown" without git.
std::string revision_of(const std::string& tree);

// Asks a case binary for its LibTorch, git for the revision, and the machine for the rest. Throws
// ExitError(Infrastructure) if the binary does not answer, or a chosen library is missing or not used.
ProbedEnvironment surroundings_of(const Layout& places, const RunOptions& options, const Machine& machine,
                                  const std::string& binary);

}  // namespace recapture::run
