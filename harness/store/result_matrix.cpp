#include "harness/store/result_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/parallel.h"
#include "harness/model/release.h"
#include "harness/store/run_heads.h"

namespace recapture {
namespace {

// The names of the kinds of machine, as short as possible without duplicates.
std::map<MachineKind, MachineName> names_of(const std::vector<Record>& records) {
  struct Differences {
    std::set<std::string> drivers, runtimes;
    std::set<bool> packed;
  };
  const auto short_name = [](const Record& record) {
    return MachineKind{record.environment.release, record.environment.machine.place()};
  };
  std::map<MachineKind, Differences> by_place, own_by_place;
  const auto add_to = [&](std::map<MachineKind, Differences>& places, const Record& record) {
    const MachineId& machine = record.environment.machine;
    Differences& differences = places[short_name(record)];
    differences.drivers.insert(machine.driver);
    differences.runtimes.insert(machine.runtime);
    differences.packed.insert(machine.packed);
  };
  for (const Record& record : records) {
    add_to(by_place, record);
    if (!was_sent(record.environment)) add_to(own_by_place, record);
  }
  std::map<MachineKind, MachineName> names;
  for (const Record& record : records) {
    const MachineId machine = record.environment.machine;
    // What somebody sent is told apart from the project's own, and does not lengthen its name.
    const Differences& differences = (was_sent(record.environment) ? by_place : own_by_place).at(short_name(record));
    const bool has_driver = differences.drivers.size() > 1, has_runtime = differences.runtimes.size() > 1;
    MachineName name{record.machine(), record.environment.release, has_driver,
                     has_runtime || machine.overrides.count("cuda_runtime") != 0};
    if (has_driver) name.text += ", driver " + escape_control(machine.driver);
    if (has_runtime) name.text += ", CUDA runtime " + escape_control(machine.runtime);
    if (differences.packed.size() > 1) name.text += machine.packed ? ", packed" : ", not packed";
    names[record.environment.kind] = name;
  }
  return names;
}

// For each case that a record ran with its current code, the tests.
std::map<std::string, std::set<std::string>> tests_now(const std::vector<Record>& records, const Rules& rules) {
  std::map<std::string, std::set<std::string>> now;
  std::map<std::string_view, const std::vector<std::string>*> last;
  for (const Record& record : records) {
    for (const auto& [id, info] : record.cases) {
      if (rules.stale(record, id)) continue;
      const auto [tests, is_first] = last.emplace(id, &info.tests);
      if (!is_first && *std::exchange(tests->second, &info.tests) == info.tests) continue;  // Nearly always.
      now[id].insert(info.tests.begin(), info.tests.end());
    }
  }
  return now;
}

// A missing test's earlier result is not its current one.
int worth(const TestVerdict& row) {
  if (!row.ran) return 0;
  if (row.result == Result::Unavailable && row.verdict != Verdict::Missing) return 1;
  return row.verdict == Verdict::Stale ? 2 : 3;
}

bool says_something(const TestVerdict& row) {
  return row.ran && row.result != Result::Unavailable && row.verdict != Verdict::Stale;
}

// A case without GPU needs has the same result on a machine with one: a host run replaces a result that was not run,
// not available, or stale there; not one that is missing, which is for the person who runs it.
void drop_what_runs_without_gpu(std::vector<JudgedRun>& records) {
  for (JudgedRun& judged : records) {
    std::set<std::string_view> on_host;
    for (const JudgedRun& host : records) {
      if (host.record.broken() != judged.record.broken() ||
          !stands_in(host.record.environment, judged.record.environment))
        continue;
      for (const TestVerdict& row : host.rows) {
        if (says_something(row) && host.record.cases.at(row.case_id).needs.gpus == 0) on_host.insert(row.test);
      }
    }
    const auto stands_elsewhere = [&](const TestVerdict& row) {
      return !says_something(row) && row.verdict != Verdict::Missing && on_host.count(row.test) != 0;
    };
    judged.rows.erase(std::remove_if(judged.rows.begin(), judged.rows.end(), stands_elsewhere), judged.rows.end());
  }
}

// A race on one GPU also occurs on others of that architecture; that it was not seen there shows nothing.
void add_where_races_occur(std::vector<JudgedRun>& records) {
  const auto key = [](const JudgedRun& judged, const TestVerdict& row) {
    const Record& record = judged.record;
    return std::tuple(row.test, record.environment.release, code_of(record, row.test), record.environment.architecture);
  };
  const auto counts = [](const JudgedRun& judged, const TestVerdict& row, Result result) {
    const Environment& environment = judged.record.environment;
    return row.ran && row.result == result && row.verdict != Verdict::Stale && environment.broken == Break::Nothing &&
           environment.machine.is_plain() && judged.record.find(row.test)->has_rate();
  };
  std::map<std::tuple<std::string, Release, std::string, Architecture>, std::set<std::string>> occurs;  // GPUs.
  for (const JudgedRun& judged : records) {
    if (judged.record.environment.architecture.empty() || was_sent(judged.record.environment)) continue;
    for (const TestVerdict& row : judged.rows) {
      if (counts(judged, row, Result::Reproduced)) occurs[key(judged, row)].insert(judged.record.env("gpu"));
    }
  }
  for (JudgedRun& judged : records) {
    for (TestVerdict& row : judged.rows) {
      if (!counts(judged, row, Result::Unseen)) continue;
      const auto found = occurs.find(key(judged, row));
      if (found == occurs.end()) continue;
      std::set<std::string> others = found->second;
      others.erase(judged.record.env("gpu"));
      if (!others.empty())
        row.reasons.push_back({ReasonKind::OccursElsewhere, fmt::format("{}", fmt::join(others, ", "))});
    }
  }
}

}  // namespace

bool replaces(const TestVerdict& newer, const TestVerdict& older) {
  if (newer.verdict == Verdict::Stale || worth(newer) < worth(older)) return false;
  const bool was_seen = older.result == Result::Reproduced && older.verdict != Verdict::Stale;
  return newer.verdict != Verdict::Insufficient || !was_seen;
}

ResultMatrix::ResultMatrix(std::vector<Record> records, const Rules& rules) : names_(names_of(records)) {
  const auto now = tests_now(records, rules);
  records_.resize(records.size());
  in_parallel(records.size(), [&](size_t i) {
    Record& record = records[i];
    std::vector<TestVerdict> rows = judge_record(record, rules);
    // A test that current code lacks is not stale: no run could renew it.
    rows.erase(std::remove_if(rows.begin(), rows.end(),
                              [&](const TestVerdict& row) {
                                const auto of_case = now.find(row.case_id);
                                return of_case != now.end() && !of_case->second.empty() &&
                                       of_case->second.count(row.name) == 0 && rules.is_stale_test(record, row.test);
                              }),
               rows.end());
    Neighbour neighbour = neighbour_of(record.environment, rules.measured);
    records_[i] = {std::move(record), std::move(rows), std::move(neighbour)};
  });
  drop_what_runs_without_gpu(records_);
  add_where_races_occur(records_);
  std::map<std::string, Release> releases;             // By machine.
  std::map<std::string, const CaseInfo*> newest_info;  // By case.
  for (const JudgedRun& judged : records_) {
    if (judged.record.broken() != Break::Nothing) continue;
    const std::string& machine = machine_of(judged.record);
    if (releases.emplace(machine, machine_name(judged.record).release).second) machines_.push_back(machine);
    for (const auto& [id, info] : judged.record.cases) {
      const CaseInfo*& newest = newest_info[id];
      if (newest == nullptr || !was_sent(judged.record.environment)) newest = &info;
    }
  }
  for (const auto& [id, info] : newest_info) {
    CaseInfo& known_case = cases_.emplace(id, *info).first->second;
    if (const auto now = rules.tree.find(id); now != rules.tree.end()) known_case.family = now->second.family;
    if (rules.simulated.count(id) != 0) known_case.fidelity = Fidelity::Simulated;
  }
  std::ranges::stable_sort(machines_, {}, [&](const std::string& machine) { return releases.at(machine); });
}

std::vector<Verdict> ResultMatrix::verdicts(const Counts& counts) const {
  std::vector<Verdict> all;
  for (const JudgedRun& judged : records_) {
    for (const TestVerdict& row : judged.rows) {
      if (!counts || counts(judged, row)) all.push_back(row.verdict);
    }
    if (!judged.record.is_complete()) all.push_back(Verdict::NotRun);
  }
  return all;
}

NewestRows::NewestRows(const ResultMatrix& matrix) {
  // In the newest rows of a case, the place of each test. The runs own the names.
  std::map<const std::vector<TestVerdict>*, std::unordered_map<std::string_view, size_t>> places;
  for (const JudgedRun& judged : matrix.records()) {
    if (judged.record.broken() != Break::Nothing) continue;
    const std::string& machine = matrix.machine_of(judged.record);
    for (const TestVerdict& row : judged.rows) {
      if (!row.ran || row.result == Result::Unavailable || row.is_simulated) continue;
      std::vector<TestVerdict>& rows = rows_[row.case_id][machine];
      const auto [place, is_first] = places[&rows].emplace(row.test, rows.size());
      if (is_first) {
        rows.push_back(row);
      } else if (TestVerdict& before = rows[place->second]; replaces(row, before)) {
        before = row;
      }
    }
  }
}

const std::vector<TestVerdict>& NewestRows::of(const std::string& case_id, const std::string& machine) const {
  static const std::vector<TestVerdict> kNone;
  const auto by_machine = rows_.find(case_id);
  if (by_machine == rows_.end()) return kNone;
  const auto rows = by_machine->second.find(machine);
  return rows == by_machine->second.end() ? kNone : rows->second;
}

}  // namespace recapture
