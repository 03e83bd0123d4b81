// Runs a program under the recorder, for blame and gate.
#pragma once
#include <string>
#include <vector>

#include "harness/run/layout.h"

namespace recapture::commands {

struct WatchOptions {
  bool deep = false;
  bool features = false;  // Whether to observe which CUDA-graph features the program uses.
};

struct Watched {
  int status = 0;           // The program's wait status.
  std::string events;       // The recorder's output.
  std::string not_whole;    // Why the output is incomplete; "" if it is complete.
  std::string why_nothing;  // Why it is empty: one reason; "" if it is not.
};

// Throws ExitError where the recorder is missing or the program cannot be started.
Watched watch(const run::Layout& places, const std::vector<std::string>& program, WatchOptions options);

}  // namespace recapture::commands
