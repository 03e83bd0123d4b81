#include "harness/store/result_store.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "harness/store/copies.h"
#include "harness/store/machine_runs.h"

namespace recapture {
namespace {

TestRun test_run(const JudgedRun& run, const TestVerdict& row) {
  TestRun made{&run, &row, run.record.find(row.test), "", false};
  made.code = code_of(run.record, row.test);
  made.is_rate = row.kind == Kind::Reproduces && made.line != nullptr && made.line->has_rate();
  return made;
}

bool by_chance(const TestRun& run) {
  return run.is_rate && (run.row->result == Result::Reproduced || run.row->result == Result::Unseen);
}

// Two records of one run of which one adds nothing. If both show something and that differs, neither is a copy.
bool are_copies(const TestRun& a, const TestRun& b) {
  if (!are_of_one_run(a.environment(), b.environment())) return false;
  if (!has_evidence(*a.row) || !has_evidence(*b.row)) return true;
  return a.code == b.code && a.row->result == b.row->result && a.row->effect == b.row->effect;
}

// Whether a copy has more of its run: a shard is less than the merged record, and a copy may have been cut short.
bool is_fuller(const TestRun& a, const TestRun& b) {
  const auto extent = [](const TestRun& run) {
    return std::tuple(has_evidence(*run.row), run.run->record.tests.size(), run.environment().run_ids.size());
  };
  return extent(a) > extent(b);
}

// Newest first. A folder may have ten thousand runs, so copies are found by the runs' ids.
std::vector<TestRun> without_copies(std::vector<TestRun> runs) {
  std::vector<TestRun> kept;
  std::unordered_multimap<std::string_view, size_t> places;  // By id.
  const auto copy_of = [&](const TestRun& run) -> std::optional<size_t> {
    for (const std::string& id : run.environment().run_ids) {
      const auto [first, last] = places.equal_range(id);
      const auto found = std::find_if(first, last, [&](const auto& at) { return are_copies(kept[at.second], run); });
      if (found != last) return found->second;
    }
    return std::nullopt;
  };
  for (TestRun& run : runs) {
    const auto place = copy_of(run);
    const size_t at = place.value_or(kept.size());
    for (const std::string& id : run.environment().run_ids) places.emplace(id, at);
    if (!place) {
      kept.push_back(std::move(run));
    } else if (is_fuller(run, kept[at])) {
      kept[at] = std::move(run);
    }
  }
  return kept;
}

// From the mildest. What has no effect on record is milder than any that has one.
int rank_of(const TestVerdict& row) {
  if (!row.effect) return 0;
  switch (*row.effect) {
    case Effect::Works:
      return 1;
    case Effect::Warns:
      return 2;
    case Effect::Raises:
      return 3;
    case Effect::Leaks:
      return 4;
    case Effect::Crashes:
      return 5;
    case Effect::Hangs:
      return 6;
    case Effect::SilentlyWrong:
      return 7;
  }
  return 0;
}

}  // namespace

bool has_evidence(const TestVerdict& row) {
  switch (row.verdict) {
    case Verdict::Inconclusive:
    case Verdict::Stale:
    case Verdict::NotRun:
    case Verdict::Missing:
      return false;
    default:
      return row.ran && row.result != Result::Unavailable && row.result != Result::Invalid;
  }
}

bool agree(const TestRun& a, const TestRun& b) {
  if (by_chance(a) && by_chance(b)) return true;
  const auto is_red = [](const TestRun& run) { return severity_of(run.row->verdict) == Severity::Fail; };
  return is_red(a) == is_red(b) && a.row->result == b.row->result && a.row->effect == b.row->effect;
}

std::vector<Agreeing> TestRuns::outcomes() const {
  std::vector<Agreeing> all;
  for (const TestRun& run : runs) {
    const auto same = std::ranges::find_if(all, [&](const Agreeing& each) { return agree(each.newest(), run); });
    (same == all.end() ? all.emplace_back() : *same).runs.push_back(run);
  }
  return all;
}

std::vector<TestRun> TestRuns::all() const {
  std::vector<TestRun> all_runs;
  for (const auto* group : {&runs, &others, &without}) all_runs.insert(all_runs.end(), group->begin(), group->end());
  std::ranges::sort(all_runs, [](const TestRun& a, const TestRun& b) { return is_newer(*b.run, *a.run); });
  return all_runs;
}

std::vector<TestRun> TestRuns::newest_first(const std::string& gpu) const {
  std::vector<TestRun> all_runs = all();
  std::ranges::reverse(all_runs);
  const auto stands_in = [&](const TestRun& run) { return run.environment().machine.gpu != gpu; };
  for (auto own = all_runs.begin(); own != all_runs.end(); ++own) {
    if (stands_in(*own)) continue;
    const auto first = std::find_if(all_runs.begin(), own,
                                    [&](const TestRun& run) { return stands_in(run) && run.code == own->code; });
    std::rotate(first, own, own + 1);
  }
  return all_runs;
}

const TestRun* TestRuns::worst() const {
  const auto worst = std::ranges::max_element(runs, {}, [](const TestRun& run) { return rank_of(*run.row); });
  return worst == runs.end() ? nullptr : &*worst;
}

bool TestRuns::is_replaced(const TestRun& run) const {
  if (runs.empty() || run.code.empty()) return false;
  const TestRun& counts = runs.front();
  return !counts.code.empty() && counts.code != run.code && is_newer(*counts.run, *run.run);
}

ResultStore::ResultStore(std::span<const JudgedRun> runs, const Filter& wanted, const RowFilter& counts) {
  for (const JudgedRun& run : runs) {
    const Environment& environment = run.record.environment;
    if (environment.broken == Break::Nothing && (!wanted || wanted(environment))) runs_.push_back(&run);
  }
  index(counts);
}

ResultStore::ResultStore(std::span<const JudgedRun* const> runs, const Filter& wanted) {
  for (const JudgedRun* run : runs) {
    const Environment& environment = run->record.environment;
    if (environment.broken == Break::Nothing && (!wanted || wanted(environment))) runs_.push_back(run);
  }
  index(nullptr);
}

void ResultStore::index(const RowFilter& counts) {
  std::ranges::sort(runs_, [](const JudgedRun* a, const JudgedRun* b) { return is_newer(*a, *b); });
  for (const JudgedRun* run : runs_) {
    for (const TestVerdict& row : run->rows) {
      if (!counts || counts(*run, row)) by_test_[row.test].push_back({run, &row});
    }
  }
}

std::vector<const JudgedRun*> ResultStore::before(const JudgedRun& run) const {
  std::set<std::string_view> open;  // Tests of which no earlier run has a result yet.
  for (const TestVerdict& row : run.rows) open.insert(row.test);
  std::vector<const JudgedRun*> earlier;
  const auto at = std::ranges::find(runs_, &run);
  for (auto next = at; next != runs_.end() && !open.empty(); ++next) {
    if (next == at || (*next)->record.environment.kind != run.record.environment.kind) continue;
    earlier.push_back(*next);
    for (const TestVerdict& row : (*next)->rows) {
      if (row.ran) open.erase(row.test);
    }
  }
  return earlier;
}

std::vector<MachineKind> ResultStore::machines() const {
  std::set<MachineKind> kinds;
  for (const JudgedRun* run : runs_) kinds.insert(run->record.environment.kind);
  return {kinds.begin(), kinds.end()};
}

std::vector<std::string> ResultStore::tests() const {
  std::vector<std::string> all;
  all.reserve(by_test_.size());
  for (const auto& [test, entries] : by_test_) all.emplace_back(test);
  return all;
}

TestRuns ResultStore::of(std::string_view test) const { return found(test, nullptr); }
TestRuns ResultStore::of(std::string_view test, const MachineKind& machine) const { return found(test, &machine); }

TestRuns ResultStore::found(std::string_view test, const MachineKind* machine) const {
  const auto entries = by_test_.find(test);
  std::vector<Entry> of_machine;
  for (const Entry& entry : entries == by_test_.end() ? std::vector<Entry>() : entries->second) {
    if (machine == nullptr || entry.run->record.environment.kind == *machine) of_machine.push_back(entry);
  }
  return runs_in(test, of_machine);
}

std::vector<std::pair<MachineKind, TestRuns>> ResultStore::by_machine(std::string_view test) const {
  std::map<MachineKind, std::vector<Entry>> machines;
  if (const auto entries = by_test_.find(test); entries != by_test_.end()) {
    for (const Entry& entry : entries->second) machines[entry.run->record.environment.kind].push_back(entry);
  }
  std::vector<std::pair<MachineKind, TestRuns>> all;
  for (const auto& [machine, entries] : machines) all.emplace_back(machine, runs_in(test, entries));
  return all;
}

TestRuns ResultStore::runs_in(std::string_view test, const std::vector<Entry>& entries) {
  std::vector<TestRun> runs;
  runs.reserve(entries.size());
  for (const Entry& entry : entries) runs.push_back(test_run(*entry.run, *entry.row));
  TestRuns found{std::string(test), {}, {}, {}};
  for (TestRun& run : without_copies(std::move(runs))) {
    if (!has_evidence(*run.row)) {
      found.without.push_back(std::move(run));
    } else if (found.runs.empty() || found.runs.front().code == run.code) {
      found.runs.push_back(std::move(run));
    } else {
      found.others.push_back(std::move(run));
    }
  }
  return found;
}

std::vector<TestRuns> ResultStore::disagreements() const {
  std::vector<TestRuns> all;
  for (const auto& [test, entries] : by_test_) {
    for (auto& [machine, runs] : by_machine(test)) {
      if (runs.has_disagreement()) all.push_back(std::move(runs));
    }
  }
  return all;
}

}  // namespace recapture
