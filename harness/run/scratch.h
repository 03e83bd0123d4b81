// Temporary folders of a process, removed with it. No test finds files of an earlier run.
#pragma once
#include <map>
#include <string>

namespace recapture::run {

// A folder for one process and its children: home, temporary files and all caches. It is removed with this object,
// including everything that the process left there.
class Scratch {
 public:
  // Throws ExitError(Infrastructure) if no folder can be created.
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

  // HOME, TMPDIR and the variables for folders of CUDA, LibTorch and Python.
  std::map<std::string, std::string> variables() const;

 private:
  std::string path_;
};

// True for a variable that Scratch sets.
bool belongs_to_scratch(const std::string& variable);

// The folder of this run, which contains those of its processes; the first Scratch creates it below TMPDIR, and removes
// those of killed runs. The process that created it removes it. "" before.
std::string scratch_of_run();

}  // namespace recapture::run
