#include "harness/judge/verdict.h"

#include <algorithm>
#include <array>

#include "harness/case/events.h"
#include "harness/case/pattern.h"

namespace recapture {
namespace {

constexpr std::array<std::string_view, 11> kResults = {"reproduced",  "healthy",      "different", "unseen",
                                                       "holds",       "broken",       "crashed",   "hung",
                                                       "unavailable", "inapplicable", "invalid"};

struct VerdictRow {
  Verdict verdict;
  std::string_view word;
  Tone tone;
  Exit exit;
};
// In the order of the enumeration.
constexpr std::array<VerdictRow, 13> kVerdicts = {{
    {Verdict::AsDocumented, "as documented", Tone::Green, Exit::AsExpected},
    {Verdict::AsExpected, "as expected", Tone::Green, Exit::AsExpected},
    {Verdict::NewlyFixed, "newly fixed", Tone::Red, Exit::NewlyFixed},
    {Verdict::Regressed, "regressed", Tone::Red, Exit::Changed},
    {Verdict::Changed, "changed", Tone::Red, Exit::Changed},
    {Verdict::ControlFails, "control fails", Tone::Red, Exit::Changed},
    {Verdict::FixFails, "fix fails", Tone::Red, Exit::Changed},
    {Verdict::Inconclusive, "inconclusive", Tone::Error, Exit::Inconclusive},
    {Verdict::Stale, "stale", Tone::Error, Exit::Inconclusive},
    {Verdict::NotRun, "not run", Tone::Skipped, Exit::Inconclusive},
    {Verdict::Unavailable, "unavailable", Tone::Skipped, Exit::NothingRan},
    {Verdict::Missing, "missing", Tone::Error, Exit::Infrastructure},
    {Verdict::NotApplicable, "not applicable", Tone::Skipped, Exit::NothingRan},
}};

// The worst first.
constexpr std::array<Exit, 6> kExits = {Exit::Infrastructure, Exit::Changed,    Exit::Inconclusive,
                                        Exit::NewlyFixed,     Exit::AsExpected, Exit::NothingRan};

const std::vector<ClassifyRow> kClassify = {
    {"exited", "reproduced", Result::Reproduced, Result::Invalid},
    {"exited", "healthy", Result::Healthy, Result::Invalid},
    {"exited", "different", Result::Different, Result::Invalid},
    {"exited", "unseen", Result::Unseen, Result::Invalid},
    {"exited", "ambiguous", Result::Invalid, Result::Invalid},
    {"exited", "mixed", Result::Invalid, Result::Invalid},
    {"exited", "inapplicable", Result::Inapplicable, Result::Inapplicable},
    {"exited", "skipped", Result::Unavailable, Result::Unavailable},
    {"exited", "passed", Result::Invalid, Result::Holds},
    {"exited", "failed", Result::Invalid, Result::Broken},
    {"exited", "nothing", Result::Invalid, Result::Invalid},
    {"signal", "any", Result::Crashed, Result::Crashed},
    {"deadline", "any", Result::Hung, Result::Hung},
    {"not started", "skipped", Result::Unavailable, Result::Unavailable},
    {"not started", "any", Result::Invalid, Result::Invalid},
};

const std::vector<JudgeRow> kJudge = {
    {Result::Reproduced, Verdict::AsDocumented, Verdict::AsExpected, Verdict::Regressed},
    {Result::Healthy, Verdict::NewlyFixed, Verdict::AsExpected, Verdict::Changed},
    {Result::Different, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Unseen, Verdict::Inconclusive, Verdict::AsExpected, Verdict::Inconclusive},
    {Result::Holds, Verdict::AsDocumented, Verdict::AsExpected, Verdict::NewlyFixed},
    {Result::Broken, Verdict::FixFails, Verdict::AsExpected, Verdict::Changed},
    {Result::Crashed, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Hung, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Unavailable, Verdict::Unavailable, Verdict::AsExpected, Verdict::Unavailable},
    {Result::Inapplicable, Verdict::NotApplicable, Verdict::AsExpected, Verdict::NotApplicable},
    {Result::Invalid, Verdict::Inconclusive, Verdict::Inconclusive, Verdict::Inconclusive},
};

// The documented call, where the test names one and the recorder saw one, must be the one that raised the failure.
bool raised_elsewhere(const TestRecord& test) {
  return test.has(key::raised_by) && test.has(key::culprit) && !matches(test.text(key::raised_by), test.culprit("api"));
}

}  // namespace

std::string_view word(Result result) { return kResults.at(static_cast<size_t>(result)); }
std::string_view word(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).word; }
Tone tone_of(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).tone; }

const std::vector<ClassifyRow>& classify_rows() { return kClassify; }
const std::vector<JudgeRow>& judge_rows() { return kJudge; }

std::optional<Result> result_from(std::string_view word) {
  const auto* found = std::find(kResults.begin(), kResults.end(), word);
  if (found == kResults.end()) return std::nullopt;
  return static_cast<Result>(found - kResults.begin());
}

std::string said(Kind kind, const TestRecord& test) {
  if (test.has(key::inapplicable)) return "inapplicable";
  if (test.has(key::skipped)) return "skipped";
  const std::string ended = test.text(key::ended);
  if (kind != Kind::Reproduces) return ended.empty() ? "nothing" : ended;
  std::string judged = "nothing";
  if (test.has(key::tries)) {
    judged = test.line.at(key::hits).get<int>() > 0 ? "reproduced" : "unseen";
  } else if (test.has(key::seen)) {
    judged = outcome(test.text(key::seen), test.text(key::documented), test.text(key::healthy));
    if (judged == "reproduced" && raised_elsewhere(test)) return "different";
  }
  // The test itself passes if and only if it reproduces. Otherwise another of its assertions has failed as well.
  if (!ended.empty() && judged == "reproduced" && ended != "passed") return "mixed";
  return judged;
}

Result classify(Kind kind, const TestRecord& test) {
  const std::string words = said(kind, test);
  std::string ending = test.ending();
  // What was seen was said before the probes; what happens to them is a fact of its own, not the test's end.
  if (test.has(key::probing) && kind == Kind::Reproduces && words != "nothing") ending = "exited";
  for (const ClassifyRow& row : kClassify) {
    if (row.ending == ending && (row.said == words || row.said == "any")) {
      return kind == Kind::Reproduces ? row.reproduces : row.other;
    }
  }
  return Result::Invalid;
}

Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen) {
  for (const JudgeRow& row : kJudge) {
    if (row.result != result) continue;
    if (expected == nullptr) {
      return row.unexpected == Verdict::FixFails && kind == Kind::Control ? Verdict::ControlFails : row.unexpected;
    }
    const bool this_one = expected->result == word(result) && (expected->seen.empty() || matches(expected->seen, seen));
    return this_one ? row.expected : row.otherwise;
  }
  return Verdict::Inconclusive;
}

Verdict judge_broken(Break broken, Kind kind, Result result, const TestRecord& test) {
  if (kind != breakable_kind(broken)) return Verdict::NotRun;
  if (result == Result::Unavailable) return Verdict::Unavailable;
  if (result == Result::Inapplicable) return Verdict::NotApplicable;
  // The test says nothing that can be left out.
  if (broken == Break::Remedy && !test.has(key::remedy)) return Verdict::NotApplicable;
  const bool as_it_must = broken == Break::Trigger ? result == Result::Healthy || result == Result::Unseen
                          : broken == Break::Value ? result == Result::Different || result == Result::Invalid
                                                   : result == Result::Broken || result == Result::Crashed;
  return as_it_must ? Verdict::AsExpected : Verdict::Changed;
}

Exit exit_for(const std::vector<Verdict>& verdicts) {
  for (const Exit exit : kExits) {
    const auto is_this = [&](Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).exit == exit; };
    if (std::any_of(verdicts.begin(), verdicts.end(), is_this)) return exit;
  }
  return Exit::NothingRan;
}

}  // namespace recapture
