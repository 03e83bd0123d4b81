// The rule by which a race's tries end once they have shown what one run can show. A test that leaves their number to
// the runner makes few tries in each process, and the runner starts as many processes as the rule asks for.
// docs/reference/verdicts.md has the rule and its error.
#pragma once
#include <string_view>

namespace recapture {

// Ten hits give a rate within a third, and the runs of one machine differ by more than that. Sixty tries without a hit
// leave five in a hundred possible.
inline constexpr int kEnoughHits = 10, kMostTries = 60;

// What a test's line has as "stopping", and what a test says of itself, as a fact of this name.
inline constexpr char kRaceRule[] = "ten hits, or sixty tries";
inline constexpr char kRaceRuleFact[] = "rule";

// What ended the tries: a line's "stopped_by".
inline constexpr char kStoppedByHits[] = "hits", kStoppedByTries[] = "tries";

// "" if they go on. Of a process with several tries all count, so there may be more of both.
constexpr std::string_view stopped_by(int hits, int tries) {
  return hits >= kEnoughHits ? kStoppedByHits : tries >= kMostTries ? kStoppedByTries : "";
}

}  // namespace recapture
