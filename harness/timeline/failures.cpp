#include "harness/timeline/failures.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "harness/model/release.h"

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

// Of two the one that says more: a known one, and of these the worse; else the first of the enumeration.
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

}  // namespace

std::string_view to_string(FailureOutcome outcome) { return kTexts.at(static_cast<size_t>(outcome)).first; }
std::string_view meaning(FailureOutcome outcome) { return kTexts.at(static_cast<size_t>(outcome)).second; }

bool FailureRow::has_known() const {
  return std::any_of(releases.begin(), releases.end(), [](const FailureOnRelease& on) { return is_known(on.worst); });
}

FailureTable failure_table(const ResultMatrix& matrix, const Catalogue& catalogue) {
  // The later record of a machine replaces the earlier, as ResultMatrix has it.
  std::map<std::string, std::map<std::string, std::map<std::string, FailureForm>>> newest;  // Release, test, machine.
  std::set<std::string> releases;
  for (const JudgedRun& judged : matrix.records()) {
    const Record& record = judged.record;
    const std::string release = record.env("release");
    if (record.broken() != Break::Nothing || !record.environment.machine.is_plain() || !is_version(release)) continue;
    releases.insert(release);
    for (const TestVerdict& row : judged.rows) {
      if (row.kind != Kind::Reproduces) continue;
      auto& form = newest[release][row.test][matrix.machine_of(record)];
      if (form.row == nullptr || replaces(row, *form.row)) form = {&row, &judged, outcome_of(row, record)};
    }
  }
  FailureTable table;
  table.releases.assign(releases.begin(), releases.end());
  std::sort(table.releases.begin(), table.releases.end(), [](const auto& a, const auto& b) { return older(b, a); });
  for (const CatalogueCase& one : catalogue) {
    if (one.id == kOperatorsCase) continue;
    FailureRow row{&one, {}};
    for (const std::string& release : table.releases) {
      FailureOnRelease on{release, {}};
      const auto& tests = newest[release];
      for (const CatalogueTest& test : one.tests) {
        const auto found = tests.find(one.id + "." + test.name);
        if (found == tests.end()) continue;
        for (const auto& [machine, form] : found->second) on.forms.push_back(form);
      }
      settle(on);
      row.releases.push_back(std::move(on));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace recapture::timeline
