// What a process may write and find again: folders of its own, which go with it. No test finds what another run left.
#pragma once
#include <map>
#include <string>

namespace recapture::run {

// A folder for one process and what it starts: home, temporary files and all caches lie in it. It is removed with this
// object, no matter what the process has left there.
class Scratch {
 public:
  // Throws ExitError(Infrastructure) where no folder can be made.
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

  // HOME, TMPDIR and what says where CUDA, LibTorch and Python keep things.
  std::map<std::string, std::string> variables() const;

 private:
  std::string path_;
};

// True for a variable that Scratch sets.
bool belongs_to_scratch(const std::string& variable);

// The folder of this run, in which those of its processes lie; the first Scratch makes it below TMPDIR, and the process
// that made it removes it. Those of runs that were killed are removed on that occasion. "" before.
std::string scratch_of_run();

}  // namespace recapture::run
