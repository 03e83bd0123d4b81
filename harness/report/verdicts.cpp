#include "harness/report/verdicts.h"

#include <algorithm>
#include <array>

namespace recapture::report {
namespace {

struct ShownVerdict {
  Verdict verdict;
  std::string_view letter;
  bool is_incomplete;
  std::string_view meaning;
};

// Worst first, in the order of exit_for(), within it that of the enumeration; except that an expected difference comes
// before a documented result, and a pass must not hide tests that could not run.
constexpr std::array<ShownVerdict, kVerdictCount> kShown = {{
    {Verdict::Missing, "M", true, "unavailable, and an earlier run had it"},
    {Verdict::ControlFails, "K", false, "the control of the case does not hold: its other results mean nothing"},
    {Verdict::FixFails, "F", false, "a fix does not hold"},
    {Verdict::Changed, "C", false, "a failure that is neither documented nor expected"},
    {Verdict::Regressed, "R", false, "reproduced, where something else is expected"},
    {Verdict::Stale, "s", true, "the case has changed since the run; another run makes a result that counts"},
    {Verdict::Inconclusive, "?", false, "the results contradict each other, or the test is at fault"},
    {Verdict::Insufficient, "i", true, "a race that no try showed; more runs can tell"},
    {Verdict::NotRun, "", true, "planned, and the run ended before its turn"},
    {Verdict::NewlyFixed, "N", false, "healthy, and that is not expected"},
    {Verdict::Unavailable, "u", true, "what the test needs was not there, such as a second GPU or NeMo"},
    {Verdict::AsExpected, "e", false,
     "it differs from the document, as `cases/expectations.toml` expects and explains"},
    {Verdict::AsDocumented, "d", false, "the failure shows as documented; a control or a fix holds"},
    {Verdict::Simulated, "m", false,
     "as expected of our own model on the host; counts in no line, and shows nothing about a release"},
    {Verdict::NotNeeded, "n", false, "a fix holds, and no failure of its case occurs there, so it shows nothing"},
    {Verdict::NotApplicable, "–", false, "the release has no such API"},
}};

constexpr auto find_shown(Verdict verdict) { return std::ranges::find(kShown, verdict, &ShownVerdict::verdict); }

constexpr bool has_each_verdict() {
  for (size_t i = 0; i < kVerdictCount; ++i) {
    if (find_shown(static_cast<Verdict>(i)) == kShown.end()) return false;
  }
  return true;
}
static_assert(has_each_verdict(), "give each verdict its row, with the worst first");

}  // namespace

std::string_view meaning_of(Verdict verdict) { return find_shown(verdict)->meaning; }
bool is_incomplete(Verdict verdict) { return find_shown(verdict)->is_incomplete; }
std::string_view letter_of(Verdict verdict) { return find_shown(verdict)->letter; }
Verdict worst_of(const std::vector<Verdict>& verdicts) { return *std::ranges::min_element(verdicts, {}, find_shown); }

}  // namespace recapture::report
