// What an upgrade does to a program: one table from what a test did before to what it does now. compare, gate, nightly
// diff, the page and bisect decide by this table alone.
#pragma once
#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case/types.h"
#include "harness/verdict/judge.h"

namespace recapture::compare {

// The effect of a test's outcome on the program.
enum class State { Works, Warns, Raises, SilentlyWrong, Leaks, Hangs, Crashes, Absent };
inline constexpr size_t kStateCount = static_cast<size_t>(State::Absent) + 1;

// Absent: the release has no such API.
State state_of(const TestVerdict& row, const Record& record);

// The program computes wrong numbers, leaks, hangs or crashes.
bool is_damage(State state);

// The worst first. Only a Control or a Fix "holds".
enum class Consequence {
  NewDamage,       // It worked; now it goes on with wrong numbers, leaks, hangs or crashes.
  NewErrors,       // It worked; now it raises.
  BrokenHandlers,  // It raised; now it is damage (see NewDamage), or leaves the process worse.
  StoppedHolding,  // A Control or a Fix held; now it does not.
  NotCapturable,   // An operator could be captured; now it cannot.
  ErrorChanged,    // It fails with another error, or a warning is new.
  DamageRaises,    // It went on with wrong numbers, hung or crashed; now it raises or warns.
  Recovers,        // It raises as before, and leaves less damage in the process.
  Healed,          // It failed; now it works.
  HoldsAgain,      // A Control or a Fix did not hold; now it does.
  NewFix,          // A Fix that the release lacked; now it holds.
  Capturable,      // An operator could not be captured; now it can.
  Same,
  Unknown,  // One side has no result, or the two cannot be compared.
};
inline constexpr size_t kConsequenceCount = static_cast<size_t>(Consequence::Unknown) + 1;

std::string_view to_string(Consequence consequence);
std::optional<Consequence> consequence_from(std::string_view word);

// The five that break a program that runs today: `compare` fails for them, and a gate blocks them by default.
bool is_regression(Consequence consequence);

// Equal states give Same: the errors themselves are compared elsewhere. If one state is Absent the result is Unknown,
// except for a Fix.
Consequence consequence_of(Kind kind, State before, State now);

// What a test asks of its process after a failed capture.
enum class Probe {
  Stream,   // Whether the stream still captures.
  Sticky,   // CUDA's error state.
  Random,   // Random numbers.
  Trim,     // emptyCache().
  Capture,  // The next capture.
};
inline constexpr size_t kProbeCount = static_cast<size_t>(Probe::Capture) + 1;
// The record's names.
inline constexpr std::array<std::string_view, kProbeCount> kProbes = {"stream", "sticky", "random", "trim", "capture"};

struct ProbeResult {
  Probe probe = Probe::Stream;
  std::string result;  // Escaped and cut.

  auto operator<=>(const ProbeResult&) const = default;
};

// How much damage a failed capture left in its process, by its test's probes. 0 is none; a higher number of any probe
// is worse.
enum class Aftermath { Same, Better, Worse };
Aftermath compare_aftermath(const TestRecord& before, const TestRecord& now);
// The probes of which `now` is worse (with `better`: better), with their results in `now`.
std::vector<ProbeResult> changed_probes(const TestRecord& before, const TestRecord& now, bool better);

}  // namespace recapture::compare
