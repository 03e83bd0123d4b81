#include "harness/verdict/judge.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>

#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

void judge_row(const Record& record, const TestRecord& test, const Rules& rules, const Neighbour& neighbour,
               std::optional<bool> is_stale, TestVerdict& row) {
  Evidence evidence = read_evidence(row.kind, record, test, rules, neighbour, is_stale);
  Judgement decision = decide(evidence);
  row.ran = true;
  row.code = test.error();
  row.seconds = test.seconds();
  row.result = evidence.reading.result;
  row.verdict = decision.verdict;
  row.reasons = std::move(decision.reasons);
  row.observed = std::move(evidence.observation);
  row.effect = evidence.effect;
  row.has_raised = evidence.has_raised;
  if (!decision.by_expectation) return;
  const Expectation& expected = *evidence.expectation;
  row.reason = expected.why;
  row.source = expected.source;
  row.is_guess = evidence.is_expected && evidence.is_guess;
  if (evidence.is_expected && expected.effect) row.effect = expected.effect;
  if (decision.verdict == Verdict::NotApplicable && expected.inapplicable) {
    row.result = Result::Inapplicable;
    row.observed = {TestObservationKind::Text, expected.why};
    row.effect.reset();
  }
}

// Whether a Control supports the other tests of its case. If it could not run, it is no evidence either way.
enum class ControlState { Holds, NotRun, Fails };
ControlState state_of_control(const TestVerdict& control) {
  if (!control.ran) return ControlState::NotRun;
  if (control.verdict == Verdict::Unavailable || control.verdict == Verdict::NotApplicable) {
    return ControlState::NotRun;
  }
  // A control that unexpectedly holds is as good as any other that holds.
  const bool holds = severity_of(control.verdict) == Severity::Pass || control.verdict == Verdict::NewlyFixed;
  return holds ? ControlState::Holds : ControlState::Fails;
}

// The tests of a case that stand together: those of its program in Python have no control, and are another program.
bool are_of_program(const TestVerdict& row) { return is_of_program(row.name); }

// If no control of a case holds, or one of them does not, its other tests are invalid.
void doubt_without_control(const Record&, std::vector<TestVerdict>& rows) {
  std::map<std::string, ControlState> cases;
  for (const TestVerdict& row : rows) {
    if (row.kind != Kind::Control) continue;
    const ControlState state = state_of_control(row);
    const auto [of_case, is_first] = cases.emplace(row.case_id, state);
    if (is_first || of_case->second == ControlState::Fails) continue;
    if (state != ControlState::NotRun) of_case->second = state;
  }
  for (TestVerdict& row : rows) {
    const bool is_good = severity_of(row.verdict) == Severity::Pass || row.verdict == Verdict::NewlyFixed;
    const auto of_case = cases.find(row.case_id);
    if (!is_good || are_of_program(row) || of_case == cases.end() || of_case->second == ControlState::Holds) continue;
    row.verdict = Verdict::Inconclusive;
    const bool fails = of_case->second == ControlState::Fails;
    row.reasons.push_back({fails ? ReasonKind::ControlBroken : ReasonKind::NoControl});
  }
}

// A fix that holds where no failure of its case occurs may hold without its remedy, so it shows nothing. That each
// failure is gone must have been seen: not only some tries of a race, or a test that could not run.
void find_unneeded_fixes(const Record& record, std::vector<TestVerdict>& rows) {
  std::map<std::pair<std::string, bool>, size_t> healthy;  // By case, and whether it is the program's.
  for (const TestVerdict& row : rows) {
    const bool is_judged = severity_of(row.verdict) == Severity::Pass || severity_of(row.verdict) == Severity::Fail;
    if (row.kind == Kind::Reproduces && row.result == Result::Healthy && is_judged)
      ++healthy[{row.case_id, are_of_program(row)}];
  }
  std::set<std::pair<std::string, bool>> gone;  // Of these each failure is.
  for (const auto& [tests, count] : healthy) {
    const auto is_failure = [of_program = tests.second](const std::string& name) {
      return kind_of(name) == Kind::Reproduces && is_of_program(name) == of_program;
    };
    const auto failures = std::ranges::count_if(record.cases.at(tests.first).tests, is_failure);
    if (count == static_cast<size_t>(failures)) gone.insert(tests);
  }
  for (TestVerdict& row : rows) {
    const bool holds = row.result == Result::Holds && severity_of(row.verdict) == Severity::Pass;
    if (row.kind != Kind::Fix || !holds || row.is_simulated) continue;
    if (gone.contains({row.case_id, are_of_program(row)})) row.verdict = Verdict::NotNeeded;
  }
}

// A model of ours shows nothing about a release.
void count_simulated_apart(const Record&, std::vector<TestVerdict>& rows) {
  for (TestVerdict& row : rows) {
    if (row.is_simulated && severity_of(row.verdict) == Severity::Pass) row.verdict = Verdict::Simulated;
  }
}

// The rules about the tests of a case together, in their order: each changes what the ones before it decided. In a run
// broken on purpose no control runs, so none applies.
struct CaseRule {
  std::string_view name;  // As in docs/reference/verdicts.md.
  void (*apply)(const Record& record, std::vector<TestVerdict>& rows);
};
constexpr std::array kCaseRules = {
    CaseRule{"control fails", doubt_without_control},
    CaseRule{"not needed", find_unneeded_fixes},
    CaseRule{"simulated", count_simulated_apart},
};

}  // namespace

std::vector<std::string_view> case_rule_names() {
  std::vector<std::string_view> names;
  for (const CaseRule& rule : kCaseRules) names.push_back(rule.name);
  return names;
}

std::vector<TestVerdict> judge_record(const Record& record, const Rules& rules) {
  std::vector<const std::string*> order;
  order.reserve(std::max(record.plan.size(), record.tests.size()));
  for (const std::string& test : record.plan) order.push_back(&test);
  std::unordered_set<std::string_view> planned(record.plan.begin(), record.plan.end());
  for (const TestRecord& test : record.tests) {
    if (planned.insert(test.id()).second) order.push_back(&test.id());
  }
  const std::string release = record.env("release"), gpu = record.env("gpu"), driver = record.env("driver");
  const Neighbour neighbour = neighbour_of(record.environment, rules.measured);
  std::vector<TestVerdict> rows;
  rows.reserve(order.size());
  const bool has_gpu = !record.environment.machine.gpu.empty();
  std::string case_id, family;  // The tests of a case are together: what they share is looked up once.
  bool is_simulated = false, is_stale = false;
  for (const std::string* const test : order) {
    const std::string& id = *test;
    if (case_id.empty() || id.compare(0, id.find('.'), case_id) != 0) {
      case_id = case_of(id);
      is_simulated = rules.simulated.count(case_id) != 0;
      is_stale = rules.stale(record, case_id);
      const auto now = rules.tree.find(case_id);
      const auto then = record.cases.find(case_id);
      family = now != rules.tree.end() ? now->second.family : then != record.cases.end() ? then->second.family : "";
    }
    if (is_simulated && has_gpu) continue;
    TestVerdict& row = rows.emplace_back();
    row.test = id;
    row.case_id = case_id;
    row.name = name_of(id);
    row.family = family;
    row.release = release;
    row.gpu = gpu;
    row.driver = driver;
    row.kind = kind_of_id(id);
    row.is_simulated = is_simulated;
    const auto of_case = is_of_program(row.name) ? std::nullopt : std::optional(is_stale);
    if (const TestRecord* line = record.find(id)) judge_row(record, *line, rules, neighbour, of_case, row);
  }
  if (record.broken() != Break::Nothing) return rows;
  for (const CaseRule& rule : kCaseRules) rule.apply(record, rows);
  return rows;
}

JudgedRun judged(Record record, const Rules& rules) {
  std::vector<TestVerdict> rows = judge_record(record, rules);
  Neighbour neighbour = neighbour_of(record.environment, rules.measured);
  return {std::move(record), std::move(rows), std::move(neighbour)};
}

bool may_be_decided(const TestVerdict& row) {
  return row.verdict == Verdict::Inconclusive &&
         std::ranges::any_of(row.reasons, [](const Reason& reason) { return may_be_decided(reason.kind); });
}

std::vector<Verdict> verdicts_of(const std::vector<TestVerdict>& rows) {
  std::vector<Verdict> verdicts;
  verdicts.reserve(rows.size());
  for (const TestVerdict& row : rows) verdicts.push_back(row.verdict);
  return verdicts;
}

}  // namespace recapture
