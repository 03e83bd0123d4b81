#include "harness/store/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "harness/base/text.h"
#include "harness/model/operators.h"
#include "harness/model/origin.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

bool is_operator(const std::string& test) { return kind_of_id(test) == Kind::Operator; }

// Whether each case of a record has changed since.
std::map<std::string, bool> stale_cases(const Record& record, const Rules& rules) {
  std::map<std::string, bool> stale;
  for (const auto& [id, info] : record.cases) stale.emplace(id, rules.stale(record, id));
  return stale;
}

// What the fixes of a case are for. Its program in Python has a failure of its own.
std::string failure_of(const std::string& test) {
  return case_of(test) + (is_of_program(name_of(test)) ? fmt::format(".{}", kProgramPrefix) : "");
}

}  // namespace

std::vector<std::string> complete_tests(const std::vector<const Record*>& records, const Rules& rules) {
  std::set<std::string> tests;
  for (const Record* record : records) {
    const auto stale = stale_cases(*record, rules);
    for (const TestRecord& test : record->tests) {
      std::string id = test.id();
      const auto of_case = stale.find(case_of(id));
      const bool is_current =
          of_case != stale.end() && (is_of_program(name_of(id)) ? !rules.is_stale_test(*record, id) : !of_case->second);
      if (is_current && !is_operator(id) && rules.simulated.count(of_case->first) == 0 && could_run(test)) {
        tests.insert(std::move(id));
      }
    }
  }
  return {tests.begin(), tests.end()};
}

size_t comparable_tests(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::vector<std::string_view> both;
  std::set_intersection(from.begin(), from.end(), to.begin(), to.end(), std::back_inserter(both));
  return both.size();
}

CoverageIndex::CoverageIndex(const std::vector<Record>& records, const Rules& rules) {
  for (const Record& record : records) add(record, judge_record(record, rules), rules);
  std::ranges::sort(machines_);
}

CoverageIndex::CoverageIndex(const std::vector<JudgedRun>& runs, const Rules& rules) {
  for (const JudgedRun& run : runs) add(run.record, run.rows, rules);
  std::ranges::sort(machines_);
}

void CoverageIndex::add(const Record& record, const std::vector<TestVerdict>& rows, const Rules& rules) {
  const bool is_own = !was_sent(record.environment);  // Another tells only what is left on its machine.
  const Release& release = record.environment.release;
  for (const TestVerdict& row : rows) {
    if (is_own && row.kind == Kind::Fix && row.result == Result::Inapplicable)
      inapplicable_fixes_[row.test].insert(release);
  }
  if (record.broken() != Break::Nothing) {
    for (const TestVerdict& row : rows) {
      if (is_own && record.broken() == Break::Remedy && row.kind == Kind::Fix && row.verdict == Verdict::AsExpected) {
        broken_fixes_[row.test].insert(release);
      }
    }
    return;
  }
  const MachineId& machine = record.environment.machine;
  if (!machine.gpu.empty() && machine.is_plain()) add_once(machines_, machine.comparable());
  Tests& tests = known_[{record.environment.release, record.environment.machine.with_overrides()}];
  const auto see = [&](const std::string& test, Coverage coverage) -> Known& {
    Known& entry = tests[test];
    entry.coverage = std::max(entry.coverage, coverage);
    return entry;
  };
  for (const std::string& test : record.plan) see(test, Coverage::NotRun);
  const auto stale = stale_cases(record, rules);
  std::set<std::string> undecided;
  for (const TestVerdict& row : rows) {
    if (may_be_decided(row)) undecided.insert(row.test);
    const bool occurs = row.kind == Kind::Reproduces && row.result == Result::Reproduced;
    if (is_own && occurs && row.verdict != Verdict::Stale && record.environment.build.empty() && release.is_version()) {
      failures_[failure_of(row.test)].insert(release);
    }
  }
  const int gpus = std::max(record.environment.gpus, record.environment.machine.gpu.empty() ? 0 : 1);
  auto of_case = stale.end();  // Of the test before, mostly.
  for (const TestRecord& test : record.tests) {
    const std::string& id = test.id();
    const std::string_view name = std::string_view(id).substr(id.find('.') + 1);
    if (of_case == stale.end() || id.compare(0, id.find('.'), of_case->first) != 0) of_case = stale.find(case_of(id));
    const bool is_stale =
        of_case == stale.end() || (is_of_program(name) ? rules.is_stale_test(record, id) : of_case->second);
    if (could_run(test)) {
      see(id, is_stale ? Coverage::Stale : undecided.count(id) != 0 ? Coverage::Inconclusive : Coverage::Complete);
      if (!is_own) continue;
      const auto [fewest, is_new] = fewest_gpus_.try_emplace(id, gpus);
      fewest->second = std::min(fewest->second, gpus);
    } else {
      Known& entry = see(id, is_stale ? Coverage::Stale : Coverage::Unavailable);
      entry.gpus = std::max(entry.gpus, gpus);
    }
  }
}

// In a case with ranks, each test states only at run time how many GPUs it needs. One that never ran, and could not run
// with one GPU, may need two.
int CoverageIndex::gpus_of(const WantedTest& wanted, const Known& entry) const {
  if (!wanted.needs.ranks) return wanted.needs.gpus;
  if (const auto found = fewest_gpus_.find(wanted.test); found != fewest_gpus_.end()) {
    return std::max(found->second, wanted.needs.gpus);
  }
  return entry.coverage == Coverage::Unavailable ? 2 : wanted.needs.gpus;
}

Coverage CoverageIndex::of_any_release(const std::string& test) const {
  Coverage best = Coverage::New;
  for (const auto& [kind, tests] : known_) {
    const auto found = tests.find(test);
    if (found != tests.end() && kind.machine.gpu.empty()) best = std::max(best, found->second.coverage);
  }
  return best;
}

LeftToRun CoverageIndex::left(const std::string& release, const MachineId& machine,
                              const std::vector<WantedTest>& wanted) const {
  static const Tests kNone;
  const auto tests_of = [&](const MachineId& id) -> const Tests& {
    const auto found = known_.find({Release(release), id});
    return found == known_.end() ? kNone : found->second;
  };
  MachineId without_gpu = machine.with_overrides();
  without_gpu.gpu.clear();
  without_gpu.driver.clear();
  const Tests& here = tests_of(machine.with_overrides());
  const Tests& host = machine.overrides.empty() ? tests_of(without_gpu) : kNone;
  LeftToRun left;
  for (const WantedTest& test : wanted) {
    if (test.is_simulated && !machine.gpu.empty()) continue;
    Known entry;
    if (test.is_simulated) entry.coverage = of_any_release(test.test);
    if (const auto found = here.find(test.test); found != here.end()) entry = found->second;
    if (const auto found = host.find(test.test); found != host.end() && test.needs.gpus == 0) {
      entry.coverage = std::max(entry.coverage, found->second.coverage);
    }
    const int gpus = gpus_of(test, entry);
    ++(is_operator(test.test) ? left.operators : left.counts)[entry.coverage];
    const bool is_done =
        entry.coverage == Coverage::Complete || (entry.coverage == Coverage::Unavailable && entry.gpus >= gpus);
    if (!is_done) left.tests.push_back({test.test, entry.coverage, gpus});
  }
  return left;
}

std::vector<UnbrokenFix> CoverageIndex::unbroken_fixes(const std::vector<WantedTest>& wanted) const {
  static const std::set<Release> kNone;
  const auto releases_of = [](const std::map<std::string, std::set<Release>>& releases,
                              const std::string& key) -> const std::set<Release>& {
    const auto found = releases.find(key);
    return found == releases.end() ? kNone : found->second;
  };
  std::vector<UnbrokenFix> fixes;
  for (const WantedTest& test : wanted) {
    if (kind_of_id(test.test) != Kind::Fix || test.is_simulated) continue;
    const std::set<Release>& failures = releases_of(failures_, failure_of(test.test));
    const std::set<Release>& broken = releases_of(broken_fixes_, test.test);
    const std::set<Release>& inapplicable = releases_of(inapplicable_fixes_, test.test);
    const auto newest = std::find_if(failures.rbegin(), failures.rend(), [&](const Release& release) {
      return broken.count(release) != 0 || inapplicable.count(release) == 0;
    });
    if (newest == failures.rend()) {
      fixes.push_back({test.test, ""});
    } else if (broken.count(*newest) == 0) {
      fixes.push_back({test.test, newest->name()});
    }
  }
  return fixes;
}

}  // namespace recapture
