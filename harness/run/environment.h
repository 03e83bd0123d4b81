// What a run is made on: the first line of its record.
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
  Anonymous anonymous;             // Hides this machine's folders.
  std::vector<std::string> notes;  // What the user should know of the machine before the run.
  std::string lacks;               // What a library that was chosen lacks, so that no test can be loaded.
  std::string preload;             // The libraries that were chosen, as LD_PRELOAD has them.
};

// The variables that tests have beside those of every program: where LibTorch lies, what is loaded before it, the cache
// that ci/nemo fills, and those of --env. Throws ExitError(Infrastructure) where LibTorch is not there.
std::map<std::string, std::string> variables_of_tests(const RunOptions& options, const std::string& preload);

// Reads NAME=VALUE, a variable that tests are to have on purpose. Throws ExitError(Usage) for one that is the runner's,
// the machine's or the test's own.
std::pair<std::string, std::string> read_variable(const std::string& text);

// Variables by name, as a record has them: a value that names a folder or a GPU of this machine is hashed.
Json recorded(const std::map<std::string, std::string>& variables);
inline bool is_hashed(const std::string& value) { return value.rfind("hash ", 0) == 0; }

// What a run insists on, as its record has it: "gpu", "recorder", "gpu,recorder" or "".
std::string describe(const Requirements& demands);

// Whether these are one version of a library, each as exact as it was said: 12.9 and 12.9.79.
bool is_same_version(const std::string& one, const std::string& other);

// As tools/libtorch --cache has it; "" where nothing says where a user has caches.
std::string cache_folder();

// The revision of the tree in this folder; "unknown" without git.
std::string revision_of(const std::string& tree);

// Asks a case binary for its LibTorch, git for the revision, and the machine for the rest. Throws
// ExitError(Infrastructure) where the binary does not answer, or a library that was chosen is not there or not used.
ProbedEnvironment surroundings_of(const Layout& places, const RunOptions& options, const Machine& machine,
                                  const std::string& binary);

}  // namespace recapture::run
