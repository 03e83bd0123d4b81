#include "harness/verdict/verdict.h"

#include <algorithm>
#include <array>

#include "harness/model/expectations.h"

namespace recapture {
namespace {

struct VerdictRow {
  Verdict verdict;
  std::string_view word;
  Severity severity;
  Exit exit;
};
// In the order of the enumeration.
constexpr std::array<VerdictRow, kVerdictCount> kVerdicts = {{
    {Verdict::AsDocumented, "as documented", Severity::Pass, Exit::AsExpected},
    {Verdict::AsExpected, "as expected", Severity::Pass, Exit::AsExpected},
    {Verdict::NewlyFixed, "newly fixed", Severity::Fail, Exit::Harmless},
    {Verdict::Regressed, "regressed", Severity::Fail, Exit::Changed},
    {Verdict::Changed, "changed", Severity::Fail, Exit::Changed},
    {Verdict::ControlFails, "control fails", Severity::Fail, Exit::Changed},
    {Verdict::FixFails, "fix fails", Severity::Fail, Exit::Changed},
    {Verdict::Inconclusive, "inconclusive", Severity::Error, Exit::Inconclusive},
    {Verdict::Insufficient, "insufficient data", Severity::Skip, Exit::Inconclusive},
    {Verdict::Stale, "stale", Severity::Error, Exit::Inconclusive},
    {Verdict::NotRun, "not run", Severity::Skip, Exit::Inconclusive},
    {Verdict::Unavailable, "unavailable", Severity::Skip, Exit::NothingRan},
    {Verdict::Missing, "missing", Severity::Error, Exit::Infrastructure},
    {Verdict::Simulated, "simulated", Severity::Pass, Exit::AsExpected},
    {Verdict::NotNeeded, "not needed there", Severity::Skip, Exit::NothingRan},
    {Verdict::NotApplicable, "not applicable", Severity::Skip, Exit::NothingRan},
}};

constexpr bool has_each_in_order() {
  for (size_t i = 0; i < kVerdictCount; ++i) {
    if (kVerdicts[i].verdict != static_cast<Verdict>(i)) return false;
  }
  return true;
}
static_assert(has_each_in_order(), "give each verdict its row, in the order of the enumeration");

// Worst first; without any of these, nothing ran.
constexpr std::array<Exit, 5> kExits = {Exit::Infrastructure, Exit::Changed, Exit::Inconclusive, Exit::Harmless,
                                        Exit::AsExpected};

const std::vector<ClassifyRow> kClassify = {
    {std::nullopt, SelfReport::LeftOut, Result::Unavailable, Result::Unavailable},
    {std::nullopt, SelfReport::Contradictory, Result::Invalid, Result::Invalid},
    {Ending::Exited, SelfReport::Reproduced, Result::Reproduced, Result::Invalid},
    {Ending::Exited, SelfReport::Healthy, Result::Healthy, Result::Invalid},
    {Ending::Exited, SelfReport::Different, Result::Different, Result::Invalid},
    {Ending::Exited, SelfReport::Unseen, Result::Unseen, Result::Invalid},
    {Ending::Exited, SelfReport::Ambiguous, Result::Invalid, Result::Invalid},
    {Ending::Exited, SelfReport::Mixed, Result::Invalid, Result::Invalid},
    {Ending::Exited, SelfReport::Inapplicable, Result::Inapplicable, Result::Inapplicable},
    {Ending::Exited, SelfReport::Skipped, Result::Unavailable, Result::Unavailable},
    {Ending::Exited, SelfReport::Passed, Result::Invalid, Result::Holds},
    {Ending::Exited, SelfReport::Failed, Result::Broken, Result::Broken},
    {Ending::Exited, SelfReport::Nothing, Result::Invalid, Result::Invalid},
    {Ending::Signal, std::nullopt, Result::Crashed, Result::Crashed},
    {Ending::Deadline, std::nullopt, Result::Hung, Result::Hung},
    {Ending::NotStarted, SelfReport::Skipped, Result::Unavailable, Result::Unavailable},
    {Ending::NotStarted, std::nullopt, Result::Invalid, Result::Invalid},
};

const std::vector<JudgeRow> kJudge = {
    {Result::Reproduced, Verdict::AsDocumented, Verdict::AsExpected, Verdict::Regressed},
    {Result::Healthy, Verdict::NewlyFixed, Verdict::AsExpected, Verdict::Changed},
    {Result::Different, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Unseen, Verdict::Insufficient, Verdict::Insufficient, Verdict::Insufficient},
    {Result::Holds, Verdict::AsDocumented, Verdict::AsExpected, Verdict::NewlyFixed},
    {Result::Broken, Verdict::FixFails, Verdict::AsExpected, Verdict::Changed},
    {Result::Crashed, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Hung, Verdict::Changed, Verdict::AsExpected, Verdict::Changed},
    {Result::Unavailable, Verdict::Unavailable, Verdict::AsExpected, Verdict::Unavailable},
    {Result::Inapplicable, Verdict::NotApplicable, Verdict::AsExpected, Verdict::NotApplicable},
    {Result::Invalid, Verdict::Inconclusive, Verdict::Inconclusive, Verdict::Inconclusive},
};

bool needs_a_result(const Evidence& e) { return e.needs_gpu && e.reading.result == Result::Unavailable; }
bool is_broken(const Evidence& e) { return e.broken != Break::Nothing; }
bool is_operator(const Evidence& e) { return e.kind == Kind::Operator; }

// Whether a run that was broken on purpose failed as it must.
bool fails_as_it_must(const Evidence& e) {
  const Result result = e.reading.result;
  switch (e.broken) {
    case Break::Trigger:
      return result == Result::Healthy || result == Result::Unseen;
    case Break::Value:
      return result == Result::Different || e.is_false_rate;
    case Break::Remedy:
      return result == Result::Broken || result == Result::Crashed;
    case Break::Nothing:
      break;
  }
  return false;
}

// Of a run that was broken on purpose: it failed before it could show the break. A false rate does.
bool saw_nothing(const Evidence& e) {
  const Result result = e.reading.result;
  const bool has_none = result == Result::Invalid || (result == Result::Broken && e.kind == Kind::Reproduces);
  return has_none && !(e.broken == Break::Value && e.is_false_rate);
}

bool is_asked_too_seldom(const Evidence& e) {
  return e.is_expected && e.expectation->is_open_question && e.repetitions < 2;
}

using E = Evidence;
using V = Verdict;
using R = ReasonKind;
const std::vector<Rule> kRules = {
    {"stale", [](const E& e) { return e.is_stale; }, V::Stale, {}},
    {"not confirmed", [](const E& e) { return !e.repetitions_agree; }, V::Inconclusive, R::NotConfirmed},
    {"crashed once", [](const E& e) { return e.is_lone_crash && !is_broken(e); }, V::Inconclusive, R::CrashedOnce},

    {"missing", [](const E& e) { return needs_a_result(e) && e.is_gpu_demanded && !e.has_gpu; }, V::Missing,
     R::GpuDemanded},
    // There was a GPU, or the test would not have been started.
    {"missing", [](const E& e) { return needs_a_result(e) && e.has_gpu && e.skip_reason == SkipReason::NoGpu; },
     V::Missing, R::GpuPresent},
    {"missing", [](const E& e) { return e.ran_before && !is_broken(e); }, V::Missing, R::RanBefore},
    {"missing", [](const E& e) { return !e.was_started && e.skip_reason == SkipReason::NotBuilt; }, V::Missing,
     R::WasBuilt},
    {"missing", [](const E& e) { return e.lacks_culprit && e.recorder_off.empty(); }, V::Missing, R::NoCallSeen},
    {"missing", [](const E& e) { return e.lacks_culprit; }, V::Missing, R::RecorderOff},

    {"broken",
     [](const E& e) { return e.broken == Break::Remedy && e.reading.result == Result::Holds && e.is_failure_gone; },
     V::NotApplicable, R::NothingToRemedy},
    {"broken",
     [](const E& e) { return e.broken == Break::Value && e.reading.result == Result::Healthy && e.is_expected; },
     V::NotApplicable, R::NoValueToBreak},
    {"broken", [](const E& e) { return is_broken(e) && !is_breakable(e.kind, e.broken); }, V::NotRun, {}},
    {"broken", [](const E& e) { return is_broken(e) && e.reading.result == Result::Unavailable; }, V::Unavailable, {}},
    {"broken",
     [](const E& e) { return is_broken(e) && e.reading.result == Result::Inapplicable; },
     V::NotApplicable,
     {}},
    {"broken",
     [](const E& e) { return is_broken(e) && is_operator(e) && e.reading.result != Result::Holds; },
     V::Inconclusive,
     {}},
    {"broken", [](const E& e) { return is_broken(e) && is_operator(e) && e.is_break_visible; }, V::AsExpected, {}},
    // A fix without a remedy to leave out was not tested; one that cannot leave it out is inapplicable.
    {"broken", [](const E& e) { return e.broken == Break::Remedy && !e.left_remedy_out; }, V::Inconclusive,
     R::RemedyKept},
    {"broken", [](const E& e) { return is_broken(e) && saw_nothing(e); }, V::Inconclusive, {}},
    {"broken", [](const E& e) { return is_broken(e) && fails_as_it_must(e); }, V::AsExpected, {}},
    {"broken", is_broken, V::Changed, {}},

    {"inapplicable",
     [](const E& e) { return e.is_expected && e.expectation->inapplicable; },
     V::NotApplicable,
     {},
     true},
    // The run was killed before its repetitions.
    {"open question", is_asked_too_seldom, V::Inconclusive, R::AskedTooSeldom, true},
    {"tables", [](const E&) { return true; }, {}, {}, true},
};

Reason reason_of(ReasonKind kind, const Evidence& evidence) {
  if (kind == ReasonKind::RecorderOff) return {kind, evidence.recorder_off};
  return {kind};
}

}  // namespace

std::string_view to_string(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).word; }
Severity severity_of(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).severity; }
bool is_surprise(Verdict verdict) {
  return severity_of(verdict) == Severity::Fail || severity_of(verdict) == Severity::Error;
}

const std::vector<ClassifyRow>& classify_rows() { return kClassify; }
const std::vector<JudgeRow>& judge_rows() { return kJudge; }

std::span<const Rule> rules() { return kRules; }

Result result_of(Kind kind, Ending ending, SelfReport report) {
  for (const ClassifyRow& row : kClassify) {
    if (row.ending.value_or(ending) == ending && row.self_report.value_or(report) == report) {
      return kind == Kind::Reproduces ? row.reproduces : row.other;
    }
  }
  return Result::Invalid;
}

Verdict verdict_of(Kind kind, Result result, bool has_expectation, bool is_expected) {
  const auto row = std::ranges::find(kJudge, result, &JudgeRow::result);
  if (row == kJudge.end()) return Verdict::Inconclusive;
  if (has_expectation) return is_expected ? row->expected : row->otherwise;
  if (row->unexpected != Verdict::FixFails || kind == Kind::Fix) return row->unexpected;
  return kind == Kind::Control ? Verdict::ControlFails : Verdict::Inconclusive;  // It failed before its observation.
}

Judgement decide(const Evidence& evidence) {
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& each) { return each.applies(evidence); });
  Judgement decision;
  decision.verdict = rule->verdict.value_or(
      verdict_of(evidence.kind, evidence.reading.result, evidence.expectation != nullptr, evidence.is_expected));
  if (rule->reason) decision.reasons.push_back(reason_of(*rule->reason, evidence));
  decision.by_expectation = rule->asks_expectation && evidence.expectation != nullptr;
  return decision;
}

Exit exit_for(const std::vector<Verdict>& verdicts) {
  for (const Exit exit : kExits) {
    const auto is_this = [&](Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).exit == exit; };
    if (std::ranges::any_of(verdicts, is_this)) return exit;
  }
  return Exit::NothingRan;
}

}  // namespace recapture
