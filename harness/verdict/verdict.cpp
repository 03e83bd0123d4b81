#include "harness/verdict/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/model/expectations.h"
#include "harness/verdict/operators.h"

namespace recapture {
namespace {

struct VerdictRow {
  Verdict verdict;
  std::string_view word;
  Severity tone;
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

// If the test names the documented call and the recorder saw one, that call must have raised the failure.
bool raised_elsewhere(const TestRecord& test) {
  return test.has(key::raised_by) && test.has(key::culprit) && !matches(test.text(key::raised_by), test.culprit("api"));
}

size_t assertions_of(const TestRecord& test) {
  return test.has("assertions") && test.line.at("assertions").is_array() ? test.line.at("assertions").size() : 0;
}

constexpr std::array<std::string_view, 13> kSelfReports = {
    "left out", "contradictory", "reproduced", "healthy", "different", "unseen", "ambiguous",
    "mixed",    "inapplicable",  "skipped",    "passed",  "failed",    "nothing"};

// What a Reproduces test itself reported: it passes if and only if that is Reproduced.
SelfReport judged_by_itself(const TestRecord& test) {
  if (test.has(key::tries)) {
    return test.number(key::hits).value_or(0) > 0 ? SelfReport::Reproduced : SelfReport::Unseen;
  }
  if (!test.has(key::seen)) return SelfReport::Nothing;
  const char* word = outcome(test.text(key::seen), test.text(key::documented), test.text(key::healthy));
  return detail::enum_of<SelfReport>(kSelfReports, word).value_or(SelfReport::Nothing);
}

// A probe after the failure ended the process, so the test could not finish.
bool lost_in_probe(const TestRecord& test) {
  if (!test.has(key::probing) || !test.has("probes") || test.has(key::ended)) return false;
  const Json& probes = test.line.at("probes");
  return probes.is_object() && std::ranges::any_of(probes, [](const Json& outcome) {
           return outcome.is_string() && read_probe("", outcome.get_ref<const std::string&>()) == ProbeOutcome::Lost;
         });
}

// Signals that a user, a scheduler or the kernel (out of memory) sends; a test's own faults raise others.
bool from_outside(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

std::string words_of_end(const std::string& ended) { return ended == "skipped" ? "was skipped" : ended; }

std::string words_of_ending(const TestRecord& test) {
  switch (test.ending()) {
    case Ending::Signal:
      return fmt::format("its process was killed by signal {}", test.code());
    case Ending::Deadline:
      return "its process was still running at its deadline";
    case Ending::NotStarted:
      return "it was not started";
    default:
      return fmt::format("its process exited with {}", test.code());
  }
}

std::string contradiction_in_rate(const TestRecord& test) {
  if (!test.has(key::hits) && !test.has(key::tries)) return "";
  if (test.has(key::seen)) return "it said what it saw, and a rate";
  const auto hits = test.number(key::hits), tries = test.number(key::tries);
  if (!hits || !tries) return "it said a rate without its hits or its tries";
  if (*tries < 1 || *hits < 0 || *hits > *tries) return fmt::format("it said {} hits in {} tries", *hits, *tries);
  return "";
}

// Compares the test's own report, GoogleTest's result and the exit status of a process that was not killed.
std::string contradiction_at_exit(const TestRecord& test, SelfReport own_report) {
  const std::string& ended = test.text(key::ended);
  const bool skipped = test.has(key::skipped) || test.has(key::inapplicable);
  const bool saw = test.has(key::seen) || test.has(key::tries);
  if (ended.empty()) {
    if (!skipped && !saw) return "";  // No report at all has a row of its own.
    return fmt::format("it said {}, and {} before it came to its end", skipped ? "that it was skipped" : "what it saw",
                       words_of_ending(test));
  }
  const int status = ended == "passed" ? 0 : ended == "failed" ? 1 : 77;
  if (status == 77 && ended != "skipped") return fmt::format("it said that it ended as '{}', which is no end", ended);
  if (test.code() != status)
    return fmt::format("it said that it {}, and {}", words_of_end(ended), words_of_ending(test));
  if (skipped != (ended == "skipped")) {
    return skipped ? fmt::format("it said that it was skipped, and that it {}", ended)
                   : "it said that it was skipped, and not why";
  }
  if (ended == "skipped" && saw) return "it said what it saw, and that it was skipped";
  if (ended != "failed" && assertions_of(test) > 0) {
    return fmt::format("an assertion failed, and it said that it {}", words_of_end(ended));
  }
  if (own_report == SelfReport::Nothing || own_report == SelfReport::Reproduced || ended == "skipped") return "";
  if (ended == "passed") return fmt::format("it said that it passed, and what it saw is {}", to_string(own_report));
  if (assertions_of(test) > 1)
    return fmt::format("what it saw is {}, and another assertion failed as well", to_string(own_report));
  return "";
}

// `own_report` is a Reproduces test's; "nothing" for any other.
std::string contradiction(const TestRecord& test, SelfReport own_report) {
  if (const std::string& words = test.text("contradiction"); !words.empty()) return words;
  const Ending ending = test.ending();
  const std::string& ended = test.text(key::ended);
  if (std::string words = contradiction_in_rate(test); !words.empty()) return words;
  if (ending == Ending::Exited) return contradiction_at_exit(test, own_report);
  if (ending == Ending::Unknown) {
    return fmt::format("its process ended by '{}', which is no end", test.text("ending"));
  }
  if (!ended.empty()) return fmt::format("it said that it {}, and {}", words_of_end(ended), words_of_ending(test));
  if (ending == Ending::NotStarted && (test.has(key::seen) || test.has(key::tries))) {
    return "it said what it saw, and was not started";
  }
  if (ending == Ending::Signal && from_outside(test.code())) return words_of_ending(test) + ", which no fault raises";
  return "";
}

bool is_left_out(const TestRecord& test) {
  return test.has("stub") || test.has("lacks") || !test.missing_module().empty();
}

SelfReport self_report(Kind kind, const TestRecord& test, SelfReport own_report, const std::string& contradiction) {
  if (is_left_out(test)) return SelfReport::LeftOut;
  if (!contradiction.empty()) return SelfReport::Contradictory;
  if (test.has(key::inapplicable)) return SelfReport::Inapplicable;
  if (test.has(key::skipped)) return SelfReport::Skipped;
  const std::string& ended = test.text(key::ended);
  if (kind != Kind::Reproduces) {
    return ended == "passed" ? SelfReport::Passed : ended == "failed" ? SelfReport::Failed : SelfReport::Nothing;
  }
  if (own_report == SelfReport::Nothing && ended == "failed") return SelfReport::Failed;
  if (own_report != SelfReport::Reproduced) return own_report;
  if (assertions_of(test) > 0 || ended == "failed") return SelfReport::Mixed;
  return raised_elsewhere(test) ? SelfReport::Different : own_report;
}

}  // namespace

std::string_view to_string(SelfReport report) { return kSelfReports.at(static_cast<size_t>(report)); }
std::string_view to_string(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).word; }
Severity severity_of(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).tone; }
bool is_surprise(Verdict verdict) {
  return severity_of(verdict) == Severity::Fail || severity_of(verdict) == Severity::Error;
}

const std::vector<ClassifyRow>& classify_rows() { return kClassify; }
const std::vector<JudgeRow>& judge_rows() { return kJudge; }

Reading read_test(Kind kind, const TestRecord& test) {
  Reading reading;
  const SelfReport own_report = kind == Kind::Reproduces ? judged_by_itself(test) : SelfReport::Nothing;
  reading.contradiction = contradiction(test, own_report);
  reading.self_report = self_report(kind, test, own_report, reading.contradiction);
  // The observation was reported before the probes. A probe that hangs or crashes is a fact of its own, not the test's
  // end.
  const bool in_probe = kind == Kind::Reproduces && lost_in_probe(test) && reading.self_report != SelfReport::Nothing &&
                        reading.self_report != SelfReport::LeftOut;
  const Ending ending = in_probe ? Ending::Exited : test.ending();
  for (const ClassifyRow& row : kClassify) {
    if (row.ending.value_or(ending) == ending && row.self_report.value_or(reading.self_report) == reading.self_report) {
      reading.result = kind == Kind::Reproduces ? row.reproduces : row.other;
      break;
    }
  }
  return reading;
}

bool could_run(const TestRecord& test) {
  // By the first table no other test is "unavailable", and few are.
  const bool may_be_unavailable = test.has(key::skipped) || is_left_out(test);
  return !may_be_unavailable || classify(kind_of_id(test.id()), test) != Result::Unavailable;
}

Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen) {
  for (const JudgeRow& row : kJudge) {
    if (row.result != result) continue;
    if (expected == nullptr) {
      if (row.unexpected != Verdict::FixFails || kind == Kind::Fix) return row.unexpected;
      return kind == Kind::Control ? Verdict::ControlFails
                                   : Verdict::Inconclusive;  // It failed before its observation.
    }
    const bool this_one = expected->result == result && (expected->seen.empty() || matches(expected->seen, seen));
    return this_one ? row.expected : row.otherwise;
  }
  return Verdict::Inconclusive;
}

Verdict judge_broken(Break broken, Kind kind, const Reading& reading, const TestRecord& test) {
  const Result result = reading.result;
  if (!is_breakable(kind, broken)) return Verdict::NotRun;
  if (result == Result::Unavailable) return Verdict::Unavailable;
  if (result == Result::Inapplicable) return Verdict::NotApplicable;
  if (kind == Kind::Operator) {
    if (result != Result::Holds) return Verdict::Inconclusive;
    return sees_break(operator_results(test)) ? Verdict::AsExpected : Verdict::Changed;
  }
  // A fix without a remedy to leave out was not tested; one that cannot leave it out is inapplicable.
  if (broken == Break::Remedy && !test.has(key::remedy)) return Verdict::Inconclusive;
  // With a false value, a rate is unchanged, and its test fails on purpose.
  const bool false_rate = broken == Break::Value && test.has(key::tries) && reading.self_report == SelfReport::Mixed &&
                          assertions_of(test) < 2;
  const bool saw_nothing = result == Result::Invalid || (result == Result::Broken && kind == Kind::Reproduces);
  if (saw_nothing && !false_rate) return Verdict::Inconclusive;
  const bool as_it_must = broken == Break::Trigger ? result == Result::Healthy || result == Result::Unseen
                          : broken == Break::Value ? result == Result::Different || false_rate
                                                   : result == Result::Broken || result == Result::Crashed;
  return as_it_must ? Verdict::AsExpected : Verdict::Changed;
}

Exit exit_for(const std::vector<Verdict>& verdicts) {
  for (const Exit exit : kExits) {
    const auto is_this = [&](Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)).exit == exit; };
    if (std::ranges::any_of(verdicts, is_this)) return exit;
  }
  return Exit::NothingRan;
}

}  // namespace recapture
