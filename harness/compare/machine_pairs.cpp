#include "harness/compare/machine_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "harness/store/coverage.h"
#include "harness/store/machine_runs.h"

namespace recapture::compare {
namespace {

// What rank_machine() asks of a side, without the runs on a machine without a GPU that stand in.
struct Measured {
  const Environment* environment = nullptr;
  std::vector<std::string> tests;
  size_t runs = 0;
};

Measured measure(const Side& side, const Rules& rules) {
  std::vector<const Record*> records;
  for (const JudgedRun* run : own_runs(side.runs)) records.push_back(&run->record);
  return {&side.runs.front().record.environment, complete_tests(records, rules), records.size()};
}

struct RankedPair {
  MachineRank rank;
  MachinePair pair;
};

}  // namespace

std::vector<ChosenPair> choose_pairs(const std::vector<MachineSides>& machines, const Rules& rules) {
  std::map<std::pair<std::string, std::string>, std::vector<RankedPair>> by_names;
  for (size_t machine = 0; machine < machines.size(); ++machine) {
    const std::vector<Side>& releases = machines[machine].releases;
    std::vector<Measured> measured;
    for (const Side& side : releases) measured.push_back(measure(side, rules));
    for (size_t from = 0; from < releases.size(); ++from) {
      for (size_t to = 0; to < releases.size(); ++to) {
        if (from == to) continue;
        const Measured &before = measured[from], &now = measured[to];
        const MachineRank rank =
            rank_machine(*before.environment, *now.environment, comparable_tests(before.tests, now.tests),
                         std::min(before.runs, now.runs));
        by_names[{releases[from].name, releases[to].name}].push_back({rank, {machine, from, to}});
      }
    }
  }
  std::vector<ChosenPair> all;
  for (auto& [names, pairs] : by_names) {
    std::ranges::stable_sort(pairs, {}, &RankedPair::rank);
    const MachineId& own = machines[pairs.front().pair.machine].environment.machine;
    ChosenPair chosen{pairs.front().pair, {}};
    for (const RankedPair& other : pairs) {
      const MachineId& id = machines[other.pair.machine].environment.machine;
      if (may_fill_in(own, id) && id.overrides.empty() && !other.rank.was_sent) chosen.fill_in.push_back(other.pair);
    }
    all.push_back(std::move(chosen));
  }
  return all;
}

}  // namespace recapture::compare
