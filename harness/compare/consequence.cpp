#include "harness/compare/consequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/case/events.h"

namespace recapture::compare {
namespace {

constexpr std::array<std::string_view, kConsequenceCount> kWords = {
    "new damage",    "new errors",        "broken handlers", "stopped holding", "no longer captured",
    "error changed", "damage raises now", "recovers",        "healed",          "holds again",
    "new fix",       "now captured",      "the same",        "unknown"};

constexpr Consequence kSame = Consequence::Same, kDamage = Consequence::NewDamage, kErrors = Consequence::NewErrors,
                      kHandlers = Consequence::BrokenHandlers, kChanged = Consequence::ErrorChanged,
                      kRaises = Consequence::DamageRaises, kHealed = Consequence::Healed;
// Before (rows) and now (columns), in the order of State without Absent. A program that leaks, warns or computes wrong
// numbers runs today: if it leaks more, hangs or crashes tomorrow, that is new damage.
constexpr std::array<std::array<Consequence, 7>, 7> kTable = {{
    // Works  Warns     Raises    SilentlyWrong Leaks      Hangs      Crashes
    {{kSame, kChanged, kErrors, kDamage, kDamage, kDamage, kDamage}},         // Works
    {{kHealed, kSame, kErrors, kDamage, kDamage, kDamage, kDamage}},          // Warns
    {{kHealed, kHealed, kSame, kHandlers, kHandlers, kHandlers, kHandlers}},  // Raises
    {{kHealed, kRaises, kRaises, kSame, kChanged, kDamage, kDamage}},         // SilentlyWrong
    {{kHealed, kHealed, kErrors, kDamage, kSame, kDamage, kDamage}},          // Leaks
    {{kHealed, kRaises, kRaises, kHandlers, kRaises, kSame, kChanged}},       // Hangs
    {{kHealed, kRaises, kRaises, kHandlers, kRaises, kChanged, kSame}},       // Crashes
}};

// A Control or a Fix of a silent failure whose value check failed computed wrong numbers. A failed value check has a
// place in the source; an exception that ends a test has none.
bool is_silently_wrong(const TestVerdict& row, const Record& record) {
  const TestRecord* test = record.find(row.test);
  const auto info = record.cases.find(row.case_id);
  if (test == nullptr || info == record.cases.end()) return false;
  if (info->second.effect != Effect::SilentlyWrong) return false;
  if (test->has(key::exception) || test->error() != 0) return false;
  const Json assertions = test->part("assertions");
  if (assertions.empty()) return false;
  const Json& first = assertions.front();
  return first.is_string() && first.get_ref<const std::string&>().rfind(":-1:", 0) != 0;
}

// The grade of a probe's result; higher is worse. From kUnusable on, an error handler cannot continue.
constexpr int kUnusable = 2;
int grade(std::string_view probe, std::string_view outcome) {
  switch (read_probe(probe, outcome)) {
    case ProbeOutcome::Fine:
      return 0;
    case ProbeOutcome::KeepsMemory:
      return 1;
    default:
      return kUnusable;
  }
}

// Calls `report(probe, name, before, now)` for each probe that both sides have, and with another outcome.
template <class Report>
void for_each_probe(const TestRecord& before, const TestRecord& now, const Report& report) {
  if (!before.has("probes") || !now.has("probes")) return;
  const Json earlier = before.part("probes"), later = now.part("probes");
  for (size_t i = 0; i < kProbeCount; ++i) {
    const std::string_view name = kProbes.at(i);
    const Json *was = member(earlier, name), *is = member(later, name);
    if (was == nullptr || is == nullptr || *was == *is) continue;
    report(static_cast<Probe>(i), name, text_at(earlier, name), text_at(later, name));
  }
}

}  // namespace

State state_of(const TestVerdict& row, const Record& record) {
  if (row.kind == Kind::Operator && row.result == Result::Holds && !row.effect) return State::Absent;
  if (row.result == Result::Inapplicable) return State::Absent;
  if (row.result == Result::Crashed) return State::Crashes;
  if (row.result == Result::Hung) return State::Hangs;
  const bool holds = row.result == Result::Holds && row.kind != Kind::Operator;
  if (row.result == Result::Healthy || holds || row.result == Result::Unseen) return State::Works;
  if (row.result == Result::Broken) {
    if (is_silently_wrong(row, record)) return State::SilentlyWrong;
    if (row.effect == Effect::Leaks) return State::Leaks;
    if (row.effect == Effect::Hangs) return State::Hangs;
    return row.effect == Effect::Crashes ? State::Crashes : State::Raises;
  }
  switch (row.effect.value_or(Effect::SilentlyWrong)) {
    case Effect::Works:
      return State::Works;
    case Effect::Warns:
      return State::Warns;
    case Effect::Raises:
      return State::Raises;
    case Effect::Leaks:
      return State::Leaks;
    case Effect::Crashes:
      return State::Crashes;
    case Effect::Hangs:
      return State::Hangs;
    default:
      return State::SilentlyWrong;
  }
}

bool is_damage(State state) {
  return state == State::SilentlyWrong || state == State::Leaks || state == State::Hangs || state == State::Crashes;
}

std::string_view to_string(Consequence consequence) { return kWords.at(static_cast<size_t>(consequence)); }

std::optional<Consequence> consequence_from(std::string_view word) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<Consequence>(found - kWords.begin());
}

bool is_regression(Consequence consequence) { return consequence <= Consequence::NotCapturable; }

Consequence consequence_of(Kind kind, State before, State now) {
  if (before == State::Absent || now == State::Absent) {
    if (kind != Kind::Fix) return Consequence::Unknown;
    if (before == State::Works) return Consequence::StoppedHolding;
    return now == State::Works ? Consequence::NewFix : Consequence::Same;
  }
  if (kind == Kind::Operator && (before == State::Works) != (now == State::Works)) {
    return now == State::Works ? Consequence::Capturable
           : is_damage(now)    ? Consequence::NewDamage
                               : Consequence::NotCapturable;
  }
  const Consequence consequence = kTable.at(static_cast<size_t>(before)).at(static_cast<size_t>(now));
  if (kind == Kind::Reproduces) return consequence;
  switch (consequence) {
    case Consequence::NewErrors:
      return before == State::Works ? Consequence::StoppedHolding : Consequence::Same;
    case Consequence::Healed:
      return now == State::Works ? Consequence::HoldsAgain : Consequence::Same;
    case Consequence::ErrorChanged:
    case Consequence::DamageRaises:
      return Consequence::Same;
    default:
      return consequence;
  }
}

Aftermath compare_aftermath(const TestRecord& before, const TestRecord& now) {
  bool better = false, worse = false;
  for_each_probe(before, now, [&](Probe, std::string_view name, const std::string& earlier, const std::string& later) {
    const int was = grade(name, earlier), is = grade(name, later);
    better = better || is < was;
    worse = worse || (is > was && is == kUnusable);
  });
  return worse ? Aftermath::Worse : better ? Aftermath::Better : Aftermath::Same;
}

std::vector<ProbeResult> changed_probes(const TestRecord& before, const TestRecord& now, bool better) {
  std::vector<ProbeResult> changed;
  for_each_probe(before, now,
                 [&](Probe probe, std::string_view name, const std::string& earlier, const std::string& later) {
                   const int was = grade(name, earlier), is = grade(name, later);
                   if (better ? is < was : is > was) changed.push_back({probe, truncated(later)});
                 });
  return changed;
}

}  // namespace recapture::compare
