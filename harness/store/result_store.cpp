#include "harness/store/result_store.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace recapture {
namespace {

bool is_newer(const JudgedRun* one, const JudgedRun* other) {
  const Record &a = one->record, &b = other->record;
  return std::tie(a.environment.started, a.path) > std::tie(b.environment.started, b.path);
}

bool are_of_one_run(const Environment& one, const Environment& other) {
  return std::ranges::any_of(
      one.run_ids, [&](const std::string& id) { return std::ranges::find(other.run_ids, id) != other.run_ids.end(); });
}

TestRun test_run(const JudgedRun& run, const TestVerdict& row) {
  TestRun made{&run, &row, run.record.find(row.test), "", false};
  made.code = code_of(run.record, row.test);
  made.is_rate = row.kind == Kind::Reproduces && made.line != nullptr && made.line->has_rate();
  return made;
}

bool by_chance(const TestRun& run) {
  return run.is_rate && (run.row->result == Result::Reproduced || run.row->result == Result::Unseen);
}

// Two records of one run that show the same of a test. If they differ, one of them is no copy.
bool are_copies(const TestRun& one, const TestRun& other) {
  return are_of_one_run(one.environment(), other.environment()) && one.code == other.code &&
         one.row->result == other.row->result && one.row->effect == other.row->effect;
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

bool agree(const TestRun& one, const TestRun& other) {
  if (by_chance(one) && by_chance(other)) return true;
  return one.row->result == other.row->result && one.row->effect == other.row->effect;
}

std::vector<Agreeing> TestRuns::outcomes() const {
  std::vector<Agreeing> all;
  for (const TestRun& run : runs) {
    const auto same = std::ranges::find_if(all, [&](const Agreeing& each) { return agree(each.newest(), run); });
    (same == all.end() ? all.emplace_back() : *same).runs.push_back(run);
  }
  return all;
}

const TestRun* TestRuns::worst() const {
  const auto worst = std::ranges::max_element(runs, {}, [](const TestRun& run) { return rank_of(*run.row); });
  return worst == runs.end() ? nullptr : &*worst;
}

ResultStore::ResultStore(std::span<const JudgedRun> runs, const Filter& wanted) {
  for (const JudgedRun& run : runs) {
    const Environment& environment = run.record.environment;
    if (environment.broken == Break::Nothing && (!wanted || wanted(environment))) runs_.push_back(&run);
  }
  std::ranges::sort(runs_, is_newer);
  for (const JudgedRun* run : runs_) {
    for (const TestVerdict& row : run->rows) by_test_[row.test].push_back({run, &row});
  }
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

TestRuns ResultStore::of(std::string_view test) const { return of(test, nullptr); }
TestRuns ResultStore::of(std::string_view test, const MachineKind& machine) const { return of(test, &machine); }

TestRuns ResultStore::of(std::string_view test, const MachineKind* machine) const {
  TestRuns found{std::string(test), {}, {}, {}};
  const auto entries = by_test_.find(test);
  if (entries == by_test_.end()) return found;
  for (const Entry& entry : entries->second) {
    if (machine != nullptr && entry.run->record.environment.kind != *machine) continue;
    TestRun run = test_run(*entry.run, *entry.row);
    if (!has_evidence(*entry.row)) {
      found.without.push_back(std::move(run));
      continue;
    }
    const bool is_current = found.runs.empty() || found.runs.front().code == run.code;
    std::vector<TestRun>& known = is_current ? found.runs : found.others;
    const auto is_copy = [&](const TestRun& each) { return are_copies(each, run); };
    if (std::ranges::none_of(known, is_copy)) known.push_back(std::move(run));
  }
  return found;
}

std::vector<TestRuns> ResultStore::disagreements() const {
  std::vector<TestRuns> all;
  for (const MachineKind& machine : machines()) {
    for (const auto& [test, entries] : by_test_) {
      TestRuns runs = of(test, machine);
      if (runs.has_disagreement()) all.push_back(std::move(runs));
    }
  }
  return all;
}

}  // namespace recapture
