// A program, run under the recorder: what blame and gate share.
#pragma once
#include <string>
#include <vector>

#include "harness/run/layout.h"

namespace recapture::commands {

struct WatchOptions {
  bool deep = false;
  bool features = false;  // Whether it is observed which features of graphs the program uses.
};

struct Watched {
  int status = 0;         // The program's wait status.
  std::string events;     // What the recorder wrote.
  std::string not_whole;  // Why not all that it wrote is there, or "".
};

// Throws ExitError where the recorder is missing or the program cannot be started.
Watched watch(const run::Layout& places, const std::vector<std::string>& program, WatchOptions options);

}  // namespace recapture::commands
