// How the program ends: by an exit code that scripts and schedulers see, and one line for the user.
#pragma once
#include <array>
#include <stdexcept>
#include <string>

namespace recapture {

enum class Exit {
  AsExpected = 0,
  Changed = 1,
  Usage = 2,
  PriceChanged = 3,
  NothingRan = 4,
  Harmless = 5,
  Inconclusive = 6,
  Infrastructure = 7,
  Skipped = 77,
  Interrupted = 130,
};

struct ExitMeaning {
  Exit code;
  const char* meaning;
};

// --help prints this list, and a test compares the documented table with it.
inline constexpr std::array<ExitMeaning, 10> kExitMeanings = {{
    {Exit::AsExpected, "as expected"},
    {Exit::Changed,
     "behaviour changed: a failure appeared, vanished unexpectedly, or differs; a control or a fix does not hold"},
    {Exit::Usage, "wrong usage, unknown name, malformed input, a record that another run is writing"},
    {Exit::PriceChanged, "a price changed: a remedy costs more or less than before, beyond its spread"},
    {Exit::NothingRan, "nothing ran"},
    {Exit::Harmless, "something changed and nothing broke: a documented failure did not occur, or healed"},
    {Exit::Inconclusive, "inconclusive: could not judge, stale, cut short, a shard missing"},
    {Exit::Infrastructure,
     "infrastructure: what was there or was demanded is missing, a dead GPU, no LibTorch, disk full, no permission"},
    {Exit::Skipped, "a case run by hand, or a test of CTest's, whose requirements are missing"},
    {Exit::Interrupted, "interrupted"},
}};

// Ends the program: one line for the user, and the exit code.
class ExitError : public std::runtime_error {
 public:
  ExitError(Exit code, const std::string& message) : std::runtime_error(message), code(code) {}
  Exit code;
};

}  // namespace recapture
