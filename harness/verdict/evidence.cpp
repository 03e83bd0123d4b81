#include "harness/verdict/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>

#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/model/failure_text.h"
#include "harness/model/operator_cases.h"
#include "harness/verdict/later.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

constexpr std::array<std::string_view, 13> kSelfReports = {
    "left out", "contradictory", "reproduced", "healthy", "different", "unseen", "ambiguous",
    "mixed",    "inapplicable",  "skipped",    "passed",  "failed",    "nothing"};

bool is_left_out(const TestRecord& test) {
  return test.has("stub") || test.has("lacks") || !test.missing_module().empty();
}

// The end that a test reported.
enum class End { None, Passed, Failed, Skipped, Unknown };

// The members of a line that the rules compare, read once.
struct Line {
  explicit Line(const TestRecord& test)
      : test(test),
        ending(test.ending()),
        end_word(test.text(key::ended)),
        seen(test.seen()),
        has_seen(test.has_seen()),
        has_rate(test.has_rate()),
        is_inapplicable(test.has(key::inapplicable)),
        was_skipped(test.has(key::skipped)),
        was_left_out(is_left_out(test)) {
    if (test.has("assertions")) assertions = test.part("assertions").size();
    end = end_word.empty()        ? End::None
          : end_word == "passed"  ? End::Passed
          : end_word == "failed"  ? End::Failed
          : end_word == "skipped" ? End::Skipped
                                  : End::Unknown;
  }

  bool has_report() const { return has_seen || has_rate; }
  bool has_skip() const { return was_skipped || is_inapplicable; }

  const TestRecord& test;
  Ending ending;
  std::string end_word;
  End end = End::None;
  std::string seen;
  bool has_seen, has_rate, is_inapplicable, was_skipped, was_left_out;
  size_t assertions = 0;
};

// If the test names the documented call and the recorder saw one, that call must have raised the failure.
bool raised_elsewhere(const TestRecord& test) {
  return test.has(key::raised_by) && test.has(key::culprit) && !matches(test.text(key::raised_by), test.culprit("api"));
}

// What a Reproduces test itself reported: it passes if and only if that is Reproduced.
SelfReport own_report_of(const Line& line) {
  if (line.has_rate) return line.test.hits() > 0 ? SelfReport::Reproduced : SelfReport::Unseen;
  if (!line.has_seen) return SelfReport::Nothing;
  const char* word = outcome(line.seen, line.test.text(key::documented), line.test.text(key::healthy));
  return detail::enum_of<SelfReport>(kSelfReports, word).value_or(SelfReport::Nothing);
}

// Signals that a user, a scheduler or the kernel (out of memory) sends; a test's own faults raise others.
bool from_outside(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

ContradictionKind contradiction_in_rate(const Line& line) {
  const auto hits = line.test.number(key::hits), tries = line.test.number(key::tries);
  if (!line.has_rate && !line.test.has(key::hits)) return ContradictionKind::None;
  if (line.has_seen) return ContradictionKind::SeenAndRate;
  if (!hits || !tries) return ContradictionKind::HalfARate;
  const bool is_possible = *tries >= 1 && *hits >= 0 && *hits <= *tries;
  return is_possible ? ContradictionKind::None : ContradictionKind::ImpossibleRate;
}

// Compares the test's own report, GoogleTest's result and the exit status of a process that was not killed.
ContradictionKind contradiction_at_exit(const Line& line, SelfReport own_report) {
  if (line.end == End::None) {  // No report at all has a row of its own.
    return line.has_skip() || line.has_report() ? ContradictionKind::EndedEarly : ContradictionKind::None;
  }
  if (line.end == End::Unknown) return ContradictionKind::UnknownEnd;
  constexpr int kSkipped = 77;
  const int status = line.end == End::Passed ? 0 : line.end == End::Failed ? 1 : kSkipped;
  if (line.test.code() != status) return ContradictionKind::EndAndExit;
  if (line.has_skip() != (line.end == End::Skipped)) {
    return line.has_skip() ? ContradictionKind::SkippedAndEnded : ContradictionKind::SkippedWithoutWhy;
  }
  if (line.end == End::Skipped && line.has_report()) return ContradictionKind::SeenAndSkipped;
  if (line.end != End::Failed && line.assertions > 0) return ContradictionKind::AssertionAndEnd;
  if (own_report == SelfReport::Nothing || own_report == SelfReport::Reproduced || line.end == End::Skipped) {
    return ContradictionKind::None;
  }
  if (line.end == End::Passed) return ContradictionKind::PassedAndSaw;
  return line.assertions > 1 ? ContradictionKind::TwoFailures : ContradictionKind::None;
}

ContradictionKind contradiction_in(const Line& line, SelfReport own_report) {
  if (!line.test.text("contradiction").empty()) return ContradictionKind::OnRecord;
  if (const auto kind = contradiction_in_rate(line); kind != ContradictionKind::None) return kind;
  if (line.ending == Ending::Exited) return contradiction_at_exit(line, own_report);
  if (line.ending == Ending::Unknown) return ContradictionKind::UnknownEnding;
  if (line.end != End::None) return ContradictionKind::EndAndExit;
  if (line.ending == Ending::NotStarted && line.has_report()) return ContradictionKind::SeenAndNotStarted;
  if (line.ending == Ending::Signal && from_outside(line.test.code())) return ContradictionKind::KilledFromOutside;
  return ContradictionKind::None;
}

Contradiction contradiction_of(const Line& line, SelfReport own_report) {
  Contradiction found;
  found.kind = contradiction_in(line, own_report);
  if (!found) return found;
  found.text = found.kind == ContradictionKind::OnRecord        ? line.test.text("contradiction")
               : found.kind == ContradictionKind::UnknownEnding ? line.test.text("ending")
                                                                : line.end_word;
  found.ending = line.ending;
  found.code = line.test.code();
  found.was_skipped = line.has_skip();
  found.hits = line.test.hits();
  found.tries = line.test.tries();
  found.report = own_report;
  return found;
}

// `own_report` is a Reproduces test's; "nothing" for any other.
SelfReport self_report_of(Kind kind, const Line& line, SelfReport own_report, bool is_contradictory) {
  if (line.was_left_out) return SelfReport::LeftOut;
  if (is_contradictory) return SelfReport::Contradictory;
  if (line.is_inapplicable) return SelfReport::Inapplicable;
  if (line.was_skipped) return SelfReport::Skipped;
  if (kind != Kind::Reproduces) {
    return line.end == End::Passed   ? SelfReport::Passed
           : line.end == End::Failed ? SelfReport::Failed
                                     : SelfReport::Nothing;
  }
  if (own_report == SelfReport::Nothing && line.end == End::Failed) return SelfReport::Failed;
  if (own_report != SelfReport::Reproduced) return own_report;
  if (line.assertions > 0 || line.end == End::Failed) return SelfReport::Mixed;
  return raised_elsewhere(line.test) ? SelfReport::Different : own_report;
}

// A probe after the failure ended the process, so the test could not finish.
bool was_lost_in_probe(const Line& line) {
  if (!line.test.has(key::probing) || line.test.has(key::ended)) return false;
  const Json probes = line.test.part("probes");
  return std::ranges::any_of(probes, [](const Json& outcome) {
    return outcome.is_string() && read_probe("", outcome.get_ref<const std::string&>()) == ProbeOutcome::Lost;
  });
}

Reading reading_of(Kind kind, const Line& line) {
  Reading reading;
  const SelfReport own_report = kind == Kind::Reproduces ? own_report_of(line) : SelfReport::Nothing;
  reading.contradiction = contradiction_of(line, own_report);
  reading.self_report = self_report_of(kind, line, own_report, static_cast<bool>(reading.contradiction));
  // The observation was reported before the probes. A probe that hangs or crashes is a fact of its own, not the test's
  // end.
  const bool in_probe = kind == Kind::Reproduces && was_lost_in_probe(line) &&
                        reading.self_report != SelfReport::Nothing && reading.self_report != SelfReport::LeftOut;
  reading.result = result_of(kind, in_probe ? Ending::Exited : line.ending, reading.self_report);
  return reading;
}

// One line: the first line of an uncaught exception, all of any other text, up to a limit.
std::string first_assertion(const TestRecord& test) {
  if (!test.has("assertions")) return "";
  const Json all = test.part("assertions");
  const std::string text = !all.empty() && all.front().is_string() ? all.front().get<std::string>() : "";
  constexpr std::string_view kUncaught = ":-1: C++ exception with description \"";  // GoogleTest's own words.
  if (text.compare(0, kUncaught.size(), kUncaught) == 0) {
    const size_t end = std::min(text.find('\n'), text.find("\" thrown in "));
    return fmt::format("raised \"{}\"", text.substr(kUncaught.size(), end - kUncaught.size()));
  }
  constexpr size_t kMost = 240;
  std::string line;
  std::istringstream words(text.substr(0, kMost));
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return text.size() > kMost ? line + " ..." : line;
}

TestObservation text_observed(std::string text) {
  return {text.empty() ? TestObservationKind::Nothing : TestObservationKind::Text, std::move(text)};
}

TestObservation observation_of(const Reading& reading, const Line& line) {
  const TestRecord& test = line.test;
  for (const char* reason : {"stub", "lacks"}) {
    if (test.has(reason)) return text_observed(test.text(reason));
  }
  if (std::string module = test.missing_module(); !module.empty()) {
    return {TestObservationKind::MissingModule, std::move(module)};
  }
  if (reading.contradiction) {
    const TestObservation::Detail detail{.contradiction = reading.contradiction};
    return {TestObservationKind::Contradictory, "", 0, 0, std::make_shared<TestObservation::Detail>(detail)};
  }
  if (reading.self_report == SelfReport::Mixed) return {TestObservationKind::Mixed, first_assertion(test)};
  if (line.is_inapplicable) return {TestObservationKind::NotApplicable, test.text(key::inapplicable)};
  if (line.was_skipped) return text_observed(test.text(key::skipped));
  if (line.has_rate) return {TestObservationKind::Rate, "", test.hits(), test.tries()};
  std::string text = line.seen;
  if (text.empty()) text = first_assertion(test);
  if (test.has(key::culprit)) {
    const JsonObject culprit = test.object(key::culprit);
    const TestObservation::Detail detail{
        .api = culprit.text("api"), .thread = culprit.text("thread"), .rank = culprit.number("rank")};
    return {TestObservationKind::Culprit, std::move(text), 0, 0, std::make_shared<TestObservation::Detail>(detail)};
  }
  return text_observed(text.empty() ? test.text("last_words") : std::move(text));
}

TestObservation observation_of(OperatorReading reading) {
  const TestObservationKind kind = reading.was_tried ? TestObservationKind::Operator : TestObservationKind::NoOperator;
  if (reading.at_fault.empty()) return {kind};
  return {kind, "", 0, 0,
          std::make_shared<TestObservation::Detail>(TestObservation::Detail{.forms = reading.at_fault})};
}

// `tries` actions, and those after which a graph was not right: none as long as that is not confirmed.
TestObservation observation_of(const LaterResult& later) {
  return {TestObservationKind::Operator, join(later.wrong),
          later.is_confirmed ? static_cast<int>(later.wrong.size()) : 0, static_cast<int>(later.asked.size())};
}

// Whether the line itself shows that something was raised: an error or an exception that ended the test, or what it
// observed.
bool has_raised(Result result, const Line& line) {
  if (result != Result::Reproduced && result != Result::Different && result != Result::Broken) return false;
  return names_failure(line.seen) ||
         (!Signature::read(line.seen) && (line.test.error() != 0 || line.test.has(key::exception)));
}

// From the record if it shows it; else the declared effect of the case's documented outcome.
std::optional<Effect> effect_in(const Record& record, Result result, bool raised, const Line& line,
                                const Rules& rules) {
  switch (result) {
    case Result::Healthy:
    case Result::Holds:
      return Effect::Works;
    case Result::Crashed:
      return Effect::Crashes;
    case Result::Hung:
      return Effect::Hangs;
    case Result::Reproduced:
    case Result::Different:
    case Result::Broken:
      break;
    default:
      return std::nullopt;
  }
  if (result == Result::Different && raised) return Effect::Raises;
  if (const auto declared = rules.effects.find(line.test.id()); declared != rules.effects.end())
    return declared->second;
  if (const CaseInfo& info = record.cases.at(line.test.case_id()); info.effect) {
    return info.effect_of(line.test.name());
  }
  return raised ? Effect::Raises : Effect::SilentlyWrong;
}

// A test's observation without the rank that saw it first, which depends on timing.
std::string seen_by_any_rank(const TestRecord& test) {
  constexpr std::string_view kRank = "rank ";
  std::string seen = test.seen();
  if (seen.rfind(kRank, 0) == 0) {
    const auto end = seen.find_first_not_of("0123456789", kRank.size());
    seen.erase(kRank.size(), std::min(end, seen.size()) - kRank.size());
  }
  return seen;
}

// Repetitions of the test by plain exec, if requested: any verdict needs agreement. What an expectation leaves open
// ("rank * died first") may differ.
bool agrees(const TestRecord& again, const Line& line, const Evidence& evidence) {
  const Result result = evidence.reading.result;
  if (classify(evidence.kind, again) != result) return false;
  if (line.has_rate || seen_by_any_rank(again) == seen_by_any_rank(line.test)) return true;
  const Expectation* expected = evidence.expectation;
  const auto as_expected = [&](const TestRecord& test) { return matches(expected->seen, shown(result, test)); };
  return expected != nullptr && expected->result == result && !expected->seen.empty() && as_expected(line.test) &&
         as_expected(again);
}

void read_repetitions(const Record& record, const Line& line, Evidence& evidence) {
  const auto found = record.confirmations.find(line.test.id());
  if (found == record.confirmations.end()) return;
  evidence.repetitions = found->second.size();
  evidence.repetitions_agree =
      std::ranges::all_of(found->second, [&](const TestRecord& again) { return agrees(again, line, evidence); });
}

// What the run had, and what its user demanded.
void read_requirements(const Record& record, const Line& line, const Rules& rules, Evidence& evidence) {
  const TestRecord& test = line.test;
  evidence.needs_gpu = record.cases.at(test.case_id()).needs.gpus > 0;
  evidence.has_gpu = !record.environment.machine.gpu.empty();
  evidence.is_gpu_demanded = rules.demands.gpu;
  evidence.skip_reason = test.skip_reason();
  evidence.was_started = line.ending != Ending::NotStarted;
  const bool must_name_a_call = test.has(key::raised_by) && evidence.reading.result == Result::Reproduced;
  const auto is_demanded = [&] {
    return rules.demands.recorder || record.env("require").find("recorder") != std::string::npos;
  };
  evidence.lacks_culprit = must_name_a_call && !test.has(key::culprit) && is_demanded();
  evidence.recorder_off = test.text(key::recorder);  // Where it was on, the line does not say so.
}

void read_break(const Line& line, Evidence& evidence) {
  evidence.left_remedy_out = line.test.has(key::remedy);
  evidence.is_false_rate = line.has_rate && evidence.reading.self_report == SelfReport::Mixed && line.assertions < 2;
}

}  // namespace

std::string_view to_string(SelfReport report) { return kSelfReports.at(static_cast<size_t>(report)); }

Reading read_test(Kind kind, const TestRecord& test) { return reading_of(kind, Line(test)); }

bool could_run(const TestRecord& test) {
  // By the first table no other test is "unavailable", and few are.
  const bool may_be_unavailable = test.has(key::skipped) || is_left_out(test);
  return !may_be_unavailable || classify(kind_of_id(test.id()), test) != Result::Unavailable;
}

std::string shown(Result result, const TestRecord& test) {
  if (result == Result::Broken) {
    const std::string words = first_assertion(test);
    const size_t place = words.find(": ");  // Without "cases/memory/x.cpp:153:", which an edit of the case changes.
    return place < words.find(' ') ? words.substr(place + 2) : words;
  }
  if (result == Result::Crashed && !test.has_seen()) return fmt::format("signal {}", test.code());
  return test.seen();
}

bool is_as_expected(const Expectation& expected, Result result, const std::string& shown) {
  return expected.result == result && (expected.seen.empty() || matches(expected.seen, shown));
}

Evidence read_evidence(Kind kind, const Record& record, const TestRecord& test, const Rules& rules,
                       const Neighbour& neighbour, std::optional<bool> is_stale) {
  const Line line(test);
  Evidence evidence;
  evidence.kind = kind;
  evidence.reading = reading_of(evidence.kind, line);
  const Result result = evidence.reading.result;
  OperatorReading of_operator;
  const std::string case_id = test.case_id();
  const auto later = case_id == kLaterCase ? later_result(test) : std::nullopt;
  if (evidence.kind == Kind::Operator) {
    of_operator = case_id == kLaterCase ? read_later(later) : read_operator(record, test);
  }
  evidence.is_lone_crash = of_operator.is_lone_crash;
  evidence.is_break_visible = of_operator.is_break_visible;
  if (evidence.kind == Kind::Operator && result == Result::Holds) {
    evidence.effect = of_operator.effect;
    evidence.observation = later ? observation_of(*later) : observation_of(std::move(of_operator));
  } else {
    evidence.observation = observation_of(evidence.reading, line);
    evidence.has_raised = has_raised(result, line);
    evidence.effect = effect_in(record, result, evidence.has_raised, line, rules);
  }
  evidence.is_stale = is_stale ? *is_stale : rules.is_stale_test(record, test.id());
  if (evidence.is_stale) return evidence;
  if (result == Result::Unavailable) {
    const auto before = fewest_gpus(rules.available, record.environment, test.id());
    evidence.ran_before = before && record.environment.gpus >= *before;
  }
  evidence.broken = record.broken();
  evidence.release = record.env("release");
  evidence.shown = shown(result, test);
  evidence.expectation = find_expectation(rules.expectations, test.id(), record, neighbour);
  if (const Expectation* expected = evidence.expectation) {
    evidence.is_expected = is_as_expected(*expected, result, evidence.shown);
    evidence.is_guess = expected->guessed_for(evidence.release) || !expected->where.covers(record);
  }
  if (evidence.broken == Break::Remedy) {
    evidence.is_failure_gone = expects_health(rules.expectations, test.id(), record, neighbour);
  }
  read_repetitions(record, line, evidence);
  read_requirements(record, line, rules, evidence);
  read_break(line, evidence);
  return evidence;
}

}  // namespace recapture
