#include "harness/report/latest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/model/release.h"
#include "harness/verdict/select.h"

namespace recapture::report {

std::string title_of(const OnMachine& machine) {
  return (is_version(machine.name.release) ? "LibTorch " : "") + machine.machine;
}

std::string title_of(const OnMachine& machine, const Record& record) {
  std::string title = title_of(machine);
  const std::string driver = record.env("driver"), date = record.environment.started.substr(0, 10);
  if (!driver.empty() && !machine.name.has_driver) title += ", driver " + driver;
  if (!machine.name.has_runtime) title += ", CUDA runtime " + record.env("cuda_runtime");
  if (record.environment.machine.packed) title += " (packed)";
  return title + (date.empty() ? "" : ", " + date);
}

std::string render_operator_counts(const std::vector<const TestVerdict*>& rows) {
  std::vector<std::pair<std::string, size_t>> counts = {{"captured", 0}, {"refused", 0}, {"captured and wrong", 0}};
  for (const TestVerdict* row : rows) {
    std::string word(to_string(row->verdict));
    if (severity_of(row->verdict) == Severity::Pass && row->result == Result::Holds) {
      const Effect effect = row->effect.value_or(Effect::Warns);
      word = !row->effect                      ? "without a result"
             : effect == Effect::Works         ? "captured"
             : effect == Effect::Raises        ? "refused"
             : effect == Effect::SilentlyWrong ? "captured and wrong"
                                               : std::string(to_string(effect));
    } else if (row->verdict == Verdict::NotApplicable) {
      word = "not in this release";
    }
    const auto found = std::ranges::find_if(counts, [&](const auto& one) { return one.first == word; });
    if (found == counts.end()) {
      counts.emplace_back(word, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [word, count] : counts) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, word);
  }
  return text;
}

std::string render_operator_counts(const std::vector<Latest>& operators) {
  std::vector<const TestVerdict*> rows;
  rows.reserve(operators.size());
  for (const Latest& latest : operators) rows.push_back(latest.row);
  return render_operator_counts(rows);
}

std::vector<OnMachine> latest(const ResultMatrix& board) {
  std::vector<OnMachine> all;
  std::map<std::pair<std::string, Break>, size_t> places;
  std::vector<std::map<std::string, size_t>> at;  // For each of them, the index of a test's row.
  for (const JudgedRun& judged : board.records()) {
    const std::string& machine = board.machine_of(judged.record);
    const auto [place, is_new] = places.emplace(std::pair(machine, judged.record.broken()), all.size());
    if (is_new) {
      all.push_back({machine, judged.record.broken(), nullptr, {}, board.machine_name(judged.record)});
      at.emplace_back();
    }
    OnMachine& here = all[place->second];
    here.newest = &judged;
    for (const TestVerdict& row : judged.rows) {
      std::vector<Latest>& rows = row.is_simulated             ? here.simulated
                                  : row.kind == Kind::Operator ? here.operators
                                                               : here.rows;
      const auto [known, first] = at[place->second].emplace(row.test, rows.size());
      if (first) {
        rows.push_back({&judged, &row});
      } else if (replaces(row, *rows[known->second].row)) {
        rows[known->second] = {&judged, &row};
      }
    }
  }
  const auto order = [&](const OnMachine& one) {
    const auto& machines = board.machines();
    return std::ranges::find(machines, one.machine) - machines.begin();
  };
  std::ranges::stable_sort(all, [&](const OnMachine& a, const OnMachine& b) {
    return std::pair(order(a), a.broken) < std::pair(order(b), b.broken);
  });
  return all;
}

}  // namespace recapture::report
