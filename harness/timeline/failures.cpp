#include "harness/timeline/failures.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/base/text.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/store/latest.h"

namespace recapture::timeline {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kTexts = {{
    {"works", "the program runs and its values are right"},
    {"warns", "the program goes on, with a warning"},
    {"raises", "an exception or an error code ends the capture or the call"},
    {"leaks", "the program goes on and loses memory or another resource"},
    {"crashes", "the process ends"},
    {"hangs", "the process does not come back"},
    {"silently wrong", "the program goes on with wrong values, without an error"},
    {"not seen", "a race that no try showed; that is no evidence that it is gone"},
    {"no such API", "the release lacks what the test calls"},
    {"could not run", "something that the test needs was missing"},
    {"not run", "no record has it"},
}};

// Of two outcomes: the known one; of two known ones the worse; else the first of the enumeration.
FailureOutcome stronger(FailureOutcome a, FailureOutcome b) {
  if (is_known(a) && is_known(b)) return std::max(a, b);
  return std::min(a, b);
}

void settle(FailureOnRelease& on) {
  std::map<std::string, FailureOutcome> by_test;
  for (const FailureForm& form : on.forms) {
    const auto [at, is_new] = by_test.emplace(form.row->test, form.outcome);
    if (!is_new) at->second = stronger(at->second, form.outcome);
    on.worst = stronger(on.worst, form.outcome);
  }
  for (const auto& [test, outcome] : by_test) {
    if (!is_known(outcome)) continue;
    ++on.known;
    if (outcome != FailureOutcome::Works) ++on.failing;
  }
}

// The newest result of a test on one machine.
struct Newest {
  const TestVerdict* row = nullptr;
  const JudgedRun* judged = nullptr;
};

void add_course(FixCourse& fix, const std::string& column, const std::map<std::string, Newest>& by_machine) {
  const auto is = [&](Result result, bool is_needed) {
    return std::ranges::any_of(by_machine, [&](const auto& entry) {
      const TestVerdict& row = *entry.second.row;
      return row.result == result && (row.verdict != Verdict::NotNeeded) == is_needed;
    });
  };
  if (is(Result::Broken, true)) {  // On one machine is enough.
    fix.broken.push_back(column);
  } else if (is(Result::Holds, true)) {
    fix.holds.push_back(column);
  } else if (is(Result::Holds, false)) {
    fix.not_needed.push_back(column);
  }
}

// The column of a record; nothing if it has none.
std::optional<FailureColumn> column_of(const Record& record, FailureColumns kind) {
  const std::string release = record.env("release");
  const MachineId machine = record.environment.machine;
  if (record.broken() != Break::Nothing || !machine.variables.empty()) return std::nullopt;
  if (kind == FailureColumns::Libraries) {
    if (is_version(release) && machine.overrides.empty()) return std::nullopt;
    constexpr std::string_view kBegin = ", CUDA runtime ";
    std::string detail = label_of_overrides(machine);
    if (!is_version(release) && machine.overrides.count("cuda_runtime") == 0) {
      detail = ", CUDA runtime " + record.env("cuda_runtime") + detail;
    }
    if (detail.rfind(kBegin, 0) == 0) detail.replace(0, kBegin.size(), ", CUDA ");
    return FailureColumn{is_version(release) ? release : "no LibTorch",
                         detail.substr(std::min<size_t>(2, detail.size()))};
  }
  if (!is_version(release) || !machine.overrides.empty()) return std::nullopt;
  if (kind == FailureColumns::Releases) return FailureColumn{release, ""};
  return FailureColumn{release, record.env("gpu").empty() ? "no GPU" : record.env("gpu")};
}

// Builds without LibTorch come last.
struct ColumnOrder {
  bool operator()(const FailureColumn& a, const FailureColumn& b) const {
    if (a.release == b.release) return a.detail < b.detail;
    return NewestFirst()(Release(a.release), Release(b.release));
  }
};

}  // namespace

std::string_view to_string(FailureOutcome outcome) { return kTexts.at(static_cast<size_t>(outcome)).first; }
std::string_view meaning(FailureOutcome outcome) { return kTexts.at(static_cast<size_t>(outcome)).second; }

FailureOutcome outcome_of(const TestVerdict& row, const Record& record) {
  using compare::State;
  if (!row.ran || row.result == Result::Invalid) return FailureOutcome::NotRun;
  if (row.result == Result::Unavailable) return FailureOutcome::Unavailable;
  if (row.result == Result::Unseen) return FailureOutcome::NotSeen;
  switch (compare::state_of(row, record)) {
    case State::Works:
      return FailureOutcome::Works;
    case State::Warns:
      return FailureOutcome::Warns;
    case State::Raises:
      return FailureOutcome::Raises;
    case State::Leaks:
      return FailureOutcome::Leaks;
    case State::Crashes:
      return FailureOutcome::Crashes;
    case State::Hangs:
      return FailureOutcome::Hangs;
    case State::SilentlyWrong:
      return FailureOutcome::SilentlyWrong;
    case State::Absent:
      return FailureOutcome::Absent;
  }
  return FailureOutcome::NotRun;
}

bool FailureRow::has_known() const {
  return std::ranges::any_of(releases, [](const FailureOnRelease& on) { return is_known(on.worst); });
}

const CatalogueTest* FailureRow::instead() const {
  for (const FailureOnRelease& on : releases) {
    for (const FixCourse& fix : fixes) {
      const auto& holds = fix.holds;
      if (contains(holds, on.column.release)) return fix.what;
    }
  }
  return nullptr;
}

FailureTable failure_table(const ResultMatrix& matrix, const Catalogue& catalogue, FailureColumns kind) {
  using ByMachine = std::map<std::string, Newest>;
  std::map<FailureColumn, std::unordered_map<std::string, ByMachine>, ColumnOrder> newest;  // By test.
  std::map<FailureColumn, std::set<std::string>, ColumnOrder> runtimes;
  const std::vector<OnMachine> all = latest(matrix);
  const bool has_own = !std::ranges::all_of(all, &OnMachine::was_sent);
  std::set<FailureColumn, ColumnOrder> own;
  for (const OnMachine& on : all) {
    const auto column = column_of(on.newest->record, kind);
    if (column && !on.was_sent()) own.insert(*column);
  }
  for (const OnMachine& on : all) {
    const Record& record = on.newest->record;
    const auto column = column_of(record, kind);
    if (!column) continue;
    const bool is_own_column = kind == FailureColumns::Releases ? has_own : own.contains(*column);
    if (is_own_column && on.was_sent()) continue;
    auto& tests = newest[*column];
    if (const std::string runtime = record.env("cuda_runtime"); !runtime.empty()) runtimes[*column].insert(runtime);
    for (const Latest& result : on.rows) {
      const TestVerdict& row = *result.row;
      if (row.kind == Kind::Reproduces || row.kind == Kind::Fix) tests[row.test][on.machine] = {&row, result.judged};
    }
  }
  FailureTable table;
  for (const auto& [column, tests] : newest) {
    table.columns.push_back(column);
    if (kind == FailureColumns::Releases) table.columns.back().detail = "CUDA " + join(runtimes[column], " and ");
  }
  for (const CatalogueCase& one : catalogue) {
    if (lists_operators(one.id) || one.fidelity == Fidelity::Simulated) continue;
    FailureRow row{&one, {}};
    for (const CatalogueTest& test : one.tests) {
      if (test.kind == Kind::Fix && !repeats(one, test)) row.fixes.push_back({&test, {}, {}});
    }
    auto column = table.columns.begin();
    for (const auto& [key, tests] : newest) {
      FailureOnRelease on{*column++, {}};
      auto fix = row.fixes.begin();
      for (const CatalogueTest& test : one.tests) {
        const auto found = tests.find(one.id + "." + test.name);
        if (repeats(one, test)) continue;
        if (test.kind == Kind::Fix) {
          if (found != tests.end()) add_course(*fix, key.release, found->second);
          ++fix;
        } else if (test.kind == Kind::Reproduces && found != tests.end()) {
          for (const auto& [machine, form] : found->second) {
            on.forms.push_back({form.row, form.judged, outcome_of(*form.row, form.judged->record)});
          }
        }
      }
      settle(on);
      row.releases.push_back(std::move(on));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace recapture::timeline
