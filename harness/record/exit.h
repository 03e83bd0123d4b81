// How the program ends: by an exit code that scripts and schedulers see, and one line for the user.
#pragma once
#include <stdexcept>
#include <string>

namespace recapture {

// README and `recapture --help` list them too. A case binary of its own has one more: 77, nothing that it needs is
// here.
enum class Exit {
  AsExpected = 0,
  Changed = 1,  // A failure appeared, vanished where it was expected, or differs; a control or a fix does not hold.
  Usage = 2,    // Wrong usage, unknown name, malformed input.
  NothingRan = 4,
  NewlyFixed = 5,      // A documented failure did not occur, and nobody expected that.
  Inconclusive = 6,    // A test could not judge; a record is stale or cut short.
  Infrastructure = 7,  // No GPU where one was demanded, a dead GPU, no LibTorch, disk full, no permission.
  Skipped = 77,        // A case by hand, or a test of CTest's, whose requirements are missing.
  Interrupted = 130,
};

// An end of the program that is no finding: one line for the user, and the exit code.
class Stop : public std::runtime_error {
 public:
  Stop(Exit code, const std::string& message) : std::runtime_error(message), code(code) {}
  Exit code;
};

}  // namespace recapture
