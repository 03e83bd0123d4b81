#include "harness/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/pattern.h"

namespace recapture {
namespace {

constexpr std::array<std::string_view, 11> kResults = {"reproduced",  "healthy",      "different", "unseen",
                                                       "holds",       "broken",       "crashed",   "hung",
                                                       "unavailable", "inapplicable", "invalid"};
constexpr std::array<std::string_view, 13> kVerdicts = {
    "as documented", "as expected", "newly fixed", "regressed",   "changed", "control fails", "fix fails",
    "inconclusive",  "stale",       "not run",     "unavailable", "missing", "not applicable"};

// How a test ended and what it said, to its result. `any` matches all.
struct ClassifyRow {
  std::string_view ending, said;
  Result reproduces, other;
};
constexpr std::array<ClassifyRow, 15> kClassify = {{
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
}};

// A result, to its verdict: where no expectation says anything, where one says this, where one says something else.
struct JudgeRow {
  Result result;
  Verdict unexpected, expected, otherwise;
};
constexpr std::array<JudgeRow, 11> kJudge = {{
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
}};

// The documented call, where the test names one and the recorder saw one, must be the one that raised the failure.
bool raised_elsewhere(const TestRecord& test) {
  if (!test.has("raised_by") || !test.has("culprit")) return false;
  const Json& culprit = test.line.at("culprit");
  return !matches(test.text("raised_by"), culprit.value("api", ""));
}

}  // namespace

std::optional<Kind> kind_of(std::string_view test_name) {
  if (test_name.substr(0, 7) == "Control") return Kind::Control;
  if (test_name.substr(0, 10) == "Reproduces") return Kind::Reproduces;
  if (test_name.substr(0, 3) == "Fix") return Kind::Fix;
  return std::nullopt;
}

std::string_view word(Result result) { return kResults.at(static_cast<size_t>(result)); }
std::string_view word(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)); }

std::optional<Result> result_from(std::string_view word) {
  const auto* found = std::find(kResults.begin(), kResults.end(), word);
  if (found == kResults.end()) return std::nullopt;
  return static_cast<Result>(found - kResults.begin());
}

std::string said(Kind kind, const TestRecord& test) {
  if (test.has("inapplicable")) return "inapplicable";
  if (test.has("skipped")) return "skipped";
  const std::string ended = test.text("ended");
  if (kind != Kind::Reproduces) return ended.empty() ? "nothing" : ended;
  std::string judged = "nothing";
  if (test.has("tries")) {
    judged = test.line.at("hits").get<int>() > 0 ? "reproduced" : "unseen";
  } else if (test.has("seen")) {
    judged = outcome(test.text("seen"), test.text("documented"), test.text("healthy"));
    if (judged == "reproduced" && raised_elsewhere(test)) return "different";
  }
  // The test itself passes if and only if it reproduces. Otherwise another of its assertions has failed as well.
  if (!ended.empty() && judged == "reproduced" && ended != "passed") return "mixed";
  return judged;
}

Result classify(Kind kind, const TestRecord& test) {
  const std::string words = said(kind, test);
  std::string ending = test.text("ending");
  // What was seen was said before the probes; what happens to them is a fact of its own, not the test's end.
  if (test.has("probing") && kind == Kind::Reproduces && words != "nothing") ending = "exited";
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

std::string tables_as_markdown() {
  std::string text =
      "| the process | the test said | Reproduces… is | Control…, Fix… is |\n| --- | --- | --- | --- |\n";
  for (const ClassifyRow& row : kClassify) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.ending, row.said, word(row.reproduces), word(row.other));
  }
  text += "\n| result | nothing expected | expected | something else expected |\n| --- | --- | --- | --- |\n";
  for (const JudgeRow& row : kJudge) {
    const std::string unexpected =
        row.unexpected == Verdict::FixFails ? "fix fails, control fails" : std::string(word(row.unexpected));
    text +=
        fmt::format("| {} | {} | {} | {} |\n", word(row.result), unexpected, word(row.expected), word(row.otherwise));
  }
  return text;
}

Exit exit_for(const std::vector<Verdict>& verdicts) {
  const auto any = [&](std::initializer_list<Verdict> wanted) {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [&](Verdict v) { return std::find(wanted.begin(), wanted.end(), v) != wanted.end(); });
  };
  if (any({Verdict::Missing})) return Exit::Infrastructure;
  if (any({Verdict::Changed, Verdict::Regressed, Verdict::FixFails, Verdict::ControlFails})) return Exit::Changed;
  if (any({Verdict::Inconclusive, Verdict::Stale, Verdict::NotRun})) return Exit::Inconclusive;
  if (any({Verdict::NewlyFixed})) return Exit::NewlyFixed;
  if (any({Verdict::AsDocumented, Verdict::AsExpected})) return Exit::AsExpected;
  return Exit::NothingRan;
}

std::pair<double, double> wilson(int hits, int tries) {
  if (tries <= 0) return {0, 1};
  constexpr double kZ = 1.959963985;  // Of 95 %.
  const double n = tries, p = hits / n, z2 = kZ * kZ;
  const double centre = p + z2 / (2 * n), spread = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, (centre - spread) / (1 + z2 / n)), std::min(1.0, (centre + spread) / (1 + z2 / n))};
}

}  // namespace recapture
