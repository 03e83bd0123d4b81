#include "harness/store/latest.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

namespace recapture {

std::vector<OnMachine> latest(const ResultMatrix& matrix) {
  std::vector<OnMachine> all;
  std::map<std::pair<std::string, Break>, size_t> places;
  std::vector<std::unordered_map<std::string_view, size_t>> at;  // Of each of them, where a test's row is.
  for (const JudgedRun& judged : matrix.records()) {
    const std::string& machine = matrix.machine_of(judged.record);
    const auto [place, is_new] = places.emplace(std::pair(machine, judged.record.broken()), all.size());
    if (is_new) {
      all.push_back({machine, judged.record.broken(), nullptr, {}, matrix.machine_name(judged.record)});
      at.emplace_back();
    }
    OnMachine& here = all[place->second];
    here.newest = &judged;
    for (const TestVerdict& row : judged.rows) {
      std::vector<Latest>& rows = row.is_simulated             ? here.simulated
                                  : row.kind == Kind::Operator ? here.operators
                                                               : here.rows;
      const auto [index, is_first] = at[place->second].try_emplace(row.test, rows.size());
      if (is_first) {
        rows.push_back({&judged, &row});
      } else if (replaces(row, *rows[index->second].row)) {
        rows[index->second] = {&judged, &row};
      }
    }
  }
  std::ranges::stable_sort(all, {}, [&](const OnMachine& machine) {
    const auto& machines = matrix.machines();
    return std::pair(std::ranges::find(machines, machine.machine) - machines.begin(), machine.broken);
  });
  return all;
}

}  // namespace recapture
