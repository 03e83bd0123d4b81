#include "harness/verdict/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/model/bounds.h"
#include "harness/verdict/operators.h"

namespace recapture {
namespace {

// One line: the first line of an uncaught exception, all of any other text, up to a limit.
std::string first_assertion(const TestRecord& test) {
  if (!test.has("assertions")) return "";
  const Json& all = test.line.at("assertions");
  const std::string text = !all.empty() && all.front().is_string() ? all.front().get<std::string>() : "";
  constexpr std::string_view kUncaught = ":-1: C++ exception with description \"";
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

// " of rank 1", if the call's process was one of several.
std::string of_rank(const TestRecord& test) {
  const auto rank = int_at(test.line.at(key::culprit), "rank");
  return rank ? fmt::format(" of rank {}", *rank) : "";
}

// A test's observation in a few words.
std::string observation_of(const Reading& reading, const TestRecord& test) {
  for (const char* reason : {"stub", "lacks"}) {
    if (test.has(reason)) return test.text(reason);
  }
  if (const std::string module = test.missing_module(); !module.empty()) {
    return fmt::format("needs the Python module {}", module);
  }
  if (!reading.contradiction.empty()) return reading.contradiction;
  if (reading.self_report == SelfReport::Mixed) {
    return "it saw what is documented, and an assertion failed: " + first_assertion(test);
  }
  for (const char* reason : {key::skipped, key::inapplicable}) {
    if (test.has(reason)) return test.text(reason);
  }
  // Without an interval: the tries of one run are not independent of each other. See rate.h.
  if (test.has(key::tries)) {
    return fmt::format("{} of {} tries", test.number(key::hits).value_or(0), test.number(key::tries).value_or(0));
  }
  std::string words = test.text(key::seen);
  if (words.empty()) words = first_assertion(test);
  if (test.has(key::culprit)) {
    words += fmt::format("{}by {} on the {} thread{}", words.empty() ? "" : " ", test.culprit("api"),
                         test.culprit("thread"), of_rank(test));
  }
  return words.empty() ? test.text("last_words") : words;
}

// "RuntimeError: …", as Python cases report it.
bool begins_with_exception(const std::string& seen) {
  const auto is_of_a_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  const auto end = std::ranges::find_if_not(seen, is_of_a_name);
  const auto length = static_cast<size_t>(end - seen.begin());
  return length > 1 && std::isupper(static_cast<unsigned char>(seen.front())) != 0 &&
         seen.compare(length, 2, ": ") == 0;
}

// Whether the record itself shows that something was raised.
bool raised(const TestRecord& test) {
  if (const auto signature = Signature::read(test.text(key::seen))) {
    return signature->first != "ok" || signature->end.rfind("ok", 0) != 0;
  }
  return test.error() != 0 || test.has(key::exception) || begins_with_exception(test.text(key::seen));
}

// From the record if it shows it; else the declared effect of the case's documented outcome.
std::optional<Effect> effect_in(const Record& record, const TestVerdict& row, const TestRecord& test,
                                const Rules& rules) {
  switch (row.result) {
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
  if (row.result == Result::Different && raised(test)) return Effect::Raises;
  const auto declared = rules.effects.find(row.test);
  if (declared != rules.effects.end()) return declared->second;
  const CaseInfo& info = record.cases.at(row.case_id);
  if (!info.effect.empty()) {
    const std::string declared_of_test = text_at(info.effects, row.name);
    return effect_of(declared_of_test.empty() ? info.effect : declared_of_test);
  }
  return raised(test) ? Effect::Raises : Effect::SilentlyWrong;
}

// A test's observation without the rank that saw it first, which depends on timing.
std::string seen_by_any_rank(const TestRecord& test) {
  constexpr std::string_view kRank = "rank ";
  std::string seen = test.text(key::seen);
  if (seen.rfind(kRank, 0) == 0) {
    const auto end = seen.find_first_not_of("0123456789", kRank.size());
    seen.erase(kRank.size(), std::min(end, seen.size()) - kRank.size());
  }
  return seen;
}

// Repetitions of the test by plain exec, if requested: any verdict needs agreement. What an expectation leaves open
// ("rank * died first") may differ.
bool confirmed(const Record& record, Kind kind, const TestRecord& test, Result result, const Expectation* expected) {
  const auto found = record.confirmations.find(test.id());
  if (found == record.confirmations.end()) return true;
  const auto as_expected = [&](const TestRecord& one) {
    return expected != nullptr && expected->result == result && !expected->seen.empty() &&
           matches(expected->seen, shown(result, one));
  };
  return std::ranges::all_of(found->second, [&](const TestRecord& again) {
    const bool same = test.has(key::tries) || seen_by_any_rank(again) == seen_by_any_rank(test);
    return classify(kind, again) == result && (same || (as_expected(test) && as_expected(again)));
  });
}

bool twice_confirmed(const Record& record, const TestRecord& test) {
  const auto found = record.confirmations.find(test.id());
  return found != record.confirmations.end() && found->second.size() >= 2;
}

// Why a test, or the call that it must name, is missing; nothing if neither is.
std::optional<Reason> why_missing(const Record& record, const TestVerdict& row, const TestRecord& test,
                                  const Rules& rules) {
  const bool needs_gpu = record.cases.at(row.case_id).needs.gpus > 0;
  if (rules.demands.gpu && needs_gpu && row.result == Result::Unavailable && record.env("gpu").empty()) {
    return Reason{ReasonKind::GpuDemanded};
  }
  // There was a GPU, or the test would not have been started.
  if (needs_gpu && row.result == Result::Unavailable && !record.env("gpu").empty() &&
      test.skip_reason() == SkipReason::NoGpu) {
    return Reason{ReasonKind::GpuPresent};
  }
  if (row.result == Result::Unavailable && record.broken() == Break::Nothing) {
    const auto before = fewest_gpus(rules.available, record.environment, row.test);
    if (before && record.environment.gpus >= *before) return Reason{ReasonKind::RanBefore};
  }
  if (test.ending() == Ending::NotStarted && test.skip_reason() == SkipReason::NotBuilt)
    return Reason{ReasonKind::WasBuilt};
  const bool needs_recorder = test.has(key::raised_by) && row.result == Result::Reproduced;
  if (!needs_recorder || test.has(key::culprit)) return std::nullopt;
  if (!rules.demands.recorder && record.env("require").find("recorder") == std::string::npos) return std::nullopt;
  const std::string& why_off = test.text(key::recorder);  // Where it was on, the line does not say so.
  return why_off.empty() ? Reason{ReasonKind::NoCallSeen} : Reason{ReasonKind::RecorderOff, why_off};
}

// Whether every failure of the case is expected to be gone on the record's machine. A fix then holds without its
// remedy.
bool gone(const Record& record, const std::string& case_id, const Rules& rules) {
  const auto info = record.cases.find(case_id);
  if (info == record.cases.end()) return false;
  size_t failures = 0, healthy = 0;
  for (const std::string& name : info->second.tests) {
    const std::string test = fmt::format("{}.{}", case_id, name);
    if (kind_of_id(test) != Kind::Reproduces) continue;
    ++failures;
    const Expectation* expected = find_expectation(rules.expectations, test, record);
    if (expected != nullptr && expected->result == Result::Healthy) ++healthy;
  }
  return failures > 0 && healthy == failures;
}

// Whether this failure is expected to be gone on the record's machine, with this observation.
bool gone_as_expected(const TestVerdict& row, const Expectation* expected, const TestRecord& test) {
  return expected != nullptr && expected->result == Result::Healthy &&
         judge(row.kind, row.result, expected, test.text(key::seen)) == Verdict::AsExpected;
}

// For a run that was broken on purpose.
void judge_broken_row(const Record& record, const Reading& reading, const Expectation* expected, const TestRecord& test,
                      const Rules& rules, TestVerdict& row) {
  const Break broken = record.broken();
  row.verdict = judge_broken(broken, row.kind, reading, test);
  if (broken == Break::Remedy && row.result == Result::Holds && gone(record, row.case_id, rules)) {
    row.verdict = Verdict::NotApplicable;
    row.reasons.push_back({ReasonKind::NothingToRemedy});
  } else if (broken == Break::Value && row.result == Result::Healthy && gone_as_expected(row, expected, test)) {
    row.verdict = Verdict::NotApplicable;
    row.reasons.push_back({ReasonKind::NoValueToBreak});
  } else if (broken == Break::Remedy && row.verdict == Verdict::Inconclusive && !test.has(key::remedy)) {
    row.reasons.push_back({ReasonKind::RemedyKept});
  }
}

void judge_by_expectation(const Record& record, const Expectation& expected, const TestRecord& test, TestVerdict& row) {
  row.reason = expected.why;
  row.source = expected.source;
  if (row.verdict != Verdict::AsExpected) return;
  if (expected.effect) row.effect = expected.effect;
  if (expected.guessed_for(record.env("release"))) {
    row.reasons.push_back({ReasonKind::Guessed, bounds_of(expected), row.release});
  } else if (expected.inapplicable) {
    row.result = Result::Inapplicable;
    row.verdict = Verdict::NotApplicable;
    row.observed = expected.why;
    row.effect.reset();
    return;
  } else if (expected.is_open_question && !twice_confirmed(record, test)) {
    row.reasons.push_back({ReasonKind::AskedTooSeldom});  // The run was killed before its repetitions.
  }
  if (!row.reasons.empty()) row.verdict = Verdict::Inconclusive;
}

// Reads everything about one line once: its self-report, its contradiction, its result, its expectation.
void judge_row(const Record& record, const TestRecord& test, const Rules& rules, TestVerdict& row) {
  const Reading reading = read_test(row.kind, test);
  row.ran = true;
  row.result = reading.result;
  if (row.kind == Kind::Operator && row.result == Result::Holds) {
    const auto results = operator_results(test);
    row.observed = describe_operator(results);
    row.effect = effect_of_operator(results);
  } else {
    row.observed = observation_of(reading, test);
    row.effect = effect_in(record, row, test, rules);
  }
  row.code = test.error();
  row.seconds = test.seconds();
  if (rules.stale(record, row.case_id)) {
    row.verdict = Verdict::Stale;
    return;
  }
  const Expectation* expected = find_expectation(rules.expectations, row.test, record);
  if (!confirmed(record, row.kind, test, row.result, expected)) {
    row.verdict = Verdict::Inconclusive;
    row.reasons.push_back({ReasonKind::NotConfirmed});
  } else if (row.kind == Kind::Operator && record.broken() == Break::Nothing && is_unconfirmed_crash(record, test)) {
    row.verdict = Verdict::Inconclusive;
    row.reasons.push_back({ReasonKind::CrashedOnce});
  } else if (const auto missing = why_missing(record, row, test, rules)) {
    row.verdict = Verdict::Missing;
    row.reasons.push_back(*missing);
  } else if (record.broken() != Break::Nothing) {
    judge_broken_row(record, reading, expected, test, rules, row);
  } else {
    row.verdict = judge(row.kind, row.result, expected, shown(row.result, test));
    if (expected != nullptr) judge_by_expectation(record, *expected, test, row);
  }
}

// Whether a Control supports the other tests of its case. If it could not run, it is no evidence either way.
enum class Ground { Firm, None, Broken };
Ground ground_of(const TestVerdict& control) {
  if (!control.ran) return Ground::None;
  if (control.verdict == Verdict::Unavailable || control.verdict == Verdict::NotApplicable) return Ground::None;
  // A control that unexpectedly holds is as good as any other that holds.
  const bool holds = severity_of(control.verdict) == Severity::Pass || control.verdict == Verdict::NewlyFixed;
  return holds ? Ground::Firm : Ground::Broken;
}

// If no control of a case holds, or one of them does not, its other tests are invalid.
void doubt_without_control(std::vector<TestVerdict>& rows) {
  std::map<std::string, Ground> cases;
  for (const TestVerdict& row : rows) {
    if (row.kind != Kind::Control) continue;
    const Ground ground = ground_of(row);
    const auto [known, first] = cases.emplace(row.case_id, ground);
    if (first || known->second == Ground::Broken) continue;
    if (ground != Ground::None) known->second = ground;
  }
  for (TestVerdict& row : rows) {
    const bool good = severity_of(row.verdict) == Severity::Pass || row.verdict == Verdict::NewlyFixed;
    const auto ground = cases.find(row.case_id);
    if (!good || ground == cases.end() || ground->second == Ground::Firm) continue;
    row.verdict = Verdict::Inconclusive;
    row.reasons.push_back({ground->second == Ground::Broken ? ReasonKind::ControlBroken : ReasonKind::NoControl});
  }
}

// Whether the observation adds nothing to this reason.
bool stands_alone(ReasonKind kind) { return kind == ReasonKind::NothingToRemedy || kind == ReasonKind::NoValueToBreak; }

}  // namespace

std::string render_observed(const TestVerdict& row) {
  std::string text = row.observed;
  for (const Reason& reason : row.reasons) {
    if (stands_alone(reason.kind)) text.clear();
    text += (text.empty() ? "" : "; ") + to_string(reason);
  }
  return text;
}

std::string shown(Result result, const TestRecord& test) {
  if (result == Result::Broken) {
    const std::string words = first_assertion(test);
    const size_t place = words.find(' ');  // Without "cases/memory/x.cpp:153:", which an edit of the case changes.
    return place != std::string::npos && place > 0 && words[place - 1] == ':' ? words.substr(place + 1) : words;
  }
  if (result == Result::Crashed && !test.has(key::seen)) return fmt::format("signal {}", test.code());
  return test.text(key::seen);
}

std::vector<TestVerdict> judge_record(const Record& record, const Rules& rules) {
  std::vector<std::string> order = record.plan;
  std::unordered_set<std::string_view> planned(record.plan.begin(), record.plan.end());
  for (const TestRecord& test : record.tests) {
    if (planned.insert(test.id()).second) order.push_back(test.id());
  }
  const std::string release = record.env("release"), gpu = record.env("gpu"), driver = record.env("driver");
  std::vector<TestVerdict> rows;
  rows.reserve(order.size());
  const bool has_gpu = !record.environment.machine.gpu.empty();
  for (const std::string& id : order) {
    const bool is_simulated = rules.simulated.count(case_of(id)) != 0;
    if (is_simulated && has_gpu) continue;
    TestVerdict& row = rows.emplace_back();
    row.test = id;
    row.case_id = case_of(id);
    row.name = name_of(id);
    row.release = release;
    row.gpu = gpu;
    row.driver = driver;
    row.kind = kind_of_id(id);
    row.is_simulated = is_simulated;
    if (const auto now = rules.tree.find(row.case_id); now != rules.tree.end()) {
      row.family = now->second.family;
    } else if (const auto then = record.cases.find(row.case_id); then != record.cases.end()) {
      row.family = then->second.family;
    }
    if (const TestRecord* test = record.find(id)) judge_row(record, *test, rules, row);
  }
  if (record.broken() != Break::Nothing) return rows;
  doubt_without_control(rows);  // In a run broken on purpose no control runs.
  for (TestVerdict& row : rows) {
    if (row.is_simulated && severity_of(row.verdict) == Severity::Pass) row.verdict = Verdict::Simulated;
  }
  return rows;
}

bool may_be_decided(const TestVerdict& row) {
  if (row.verdict != Verdict::Inconclusive) return false;
  return std::ranges::any_of(row.reasons, [](const Reason& reason) {
    switch (reason.kind) {
      case ReasonKind::NotConfirmed:
      case ReasonKind::CrashedOnce:
      case ReasonKind::AskedTooSeldom:
      case ReasonKind::NoControl:
        return true;
      case ReasonKind::GpuDemanded:
      case ReasonKind::GpuPresent:
      case ReasonKind::RanBefore:
      case ReasonKind::WasBuilt:
      case ReasonKind::NoCallSeen:
      case ReasonKind::RecorderOff:
      case ReasonKind::NothingToRemedy:
      case ReasonKind::NoValueToBreak:
      case ReasonKind::RemedyKept:
      case ReasonKind::Guessed:
      case ReasonKind::ControlBroken:
      case ReasonKind::OccursElsewhere:
        return false;
    }
    return false;
  });
}

std::vector<Verdict> verdicts_of(const std::vector<TestVerdict>& rows) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (const TestVerdict& row : rows) verdicts.push_back(row.verdict);
  return verdicts;
}

}  // namespace recapture
