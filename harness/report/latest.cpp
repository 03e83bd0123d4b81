#include "harness/report/latest.h"

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

std::vector<OnMachine> latest(const ResultMatrix& board) {
  std::vector<OnMachine> all;
  std::map<std::pair<std::string, Break>, size_t> places;
  std::vector<std::map<std::string, size_t>> at;  // Of each of them, where a test's row is.
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
      const auto [known, first] = at[place->second].emplace(row.test, here.rows.size());
      if (first) {
        here.rows.push_back({&judged, &row});
      } else if (replaces(row, *here.rows[known->second].row)) {
        here.rows[known->second] = {&judged, &row};
      }
    }
  }
  const auto order = [&](const OnMachine& one) {
    const auto& machines = board.machines();
    return std::find(machines.begin(), machines.end(), one.machine) - machines.begin();
  };
  std::stable_sort(all.begin(), all.end(), [&](const OnMachine& a, const OnMachine& b) {
    return std::pair(order(a), a.broken) < std::pair(order(b), b.broken);
  });
  return all;
}

}  // namespace recapture::report
