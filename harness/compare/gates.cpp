#include "harness/compare/gates.h"

#include <algorithm>

#include "harness/base/parallel.h"
#include "harness/model/operator_cases.h"
#include "harness/model/operators.h"
#include "harness/model/scope.h"
#include "harness/store/machine_runs.h"
#include "harness/store/run_heads.h"

namespace recapture::compare {

std::set<std::string> cases_to_judge(std::set<std::string> scope, const Rules& rules, bool with_operators) {
  for (const std::string& id : rules.simulated) scope.erase(id);
  if (!with_operators) std::erase_if(scope, lists_operators);
  return scope;
}

Gates::Gates(const std::vector<MachineSides>& machines, const CompareContext& context)
    : machines_(machines), context_(context), history_(context), sides_(machines.size()) {
  const Rules& rules = context.rules;
  const std::set<std::string> all = cases_in_scope(std::vector<std::string>(), context.catalogue);
  to_judge_ = tests_to_judge(cases_to_judge(all, rules, false), context.catalogue);
  in_parallel(machines.size(), [&](size_t i) {
    for (const Side& side : machines[i].releases) {
      OfSide& of_side = sides_[i].emplace_back();
      for (const JudgedRun& run : side.runs) of_side.shown.add(run, rules);
      of_side.damage = damage_in(ResultStore(side.runs), rules);
      of_side.own_damage = damage_in(ResultStore(own_runs(side.runs)), rules);
    }
  });
  in_parallel(machines.size(), [&](size_t i) {
    for (size_t side = 0; side < sides_[i].size(); ++side) {
      OfSide& of_side = sides_[i][side];
      of_side.everywhere.add(of_side.shown);
      for (size_t other = 0; other < machines.size(); ++other) {
        const OfSide* there = is_elsewhere(other, i) ? side_of(other, machines[i].releases[side].name) : nullptr;
        if (there != nullptr) of_side.everywhere.add(there->shown);
      }
    }
  });
  for (const MachineSides& machine : machines) {
    for (const auto* sides : {&machine.releases, &machine.other_runtimes}) {
      for (const Side& side : *sides) {
        for (const JudgedRun& run : side.runs) history_.add(run, rules);
      }
    }
  }
}

// As `gate` finds the records of the other machines of a release.
bool Gates::is_elsewhere(size_t other, size_t machine) const {
  return recapture::is_elsewhere(machines_[other].environment, machines_[machine].environment.machine);
}

const Gates::OfSide* Gates::side_of(size_t machine, const std::string& release) const {
  const std::vector<Side>& all = machines_[machine].releases;
  const auto side = std::ranges::find(all, release, &Side::name);
  return side == all.end() ? nullptr : &sides_[machine][static_cast<size_t>(side - all.begin())];
}

Gates::Pair Gates::gate_of(const MachinePair& place, const Comparison& comparison, Choice choice) const {
  const auto& [machine, from, to] = place;
  const Side &before = machines_[machine].releases[from], &now = machines_[machine].releases[to];
  std::vector<Elsewhere> elsewhere;
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (!is_elsewhere(i, machine)) continue;
    const OfSide* side = side_of(i, now.name);
    if (side == nullptr) continue;
    const MachineId& other = machines_[i].environment.machine;
    const bool is_same_gpu = other.gpu == machines_[machine].environment.machine.gpu;
    const bool is_chosen = choice == Choice::None || (is_same_gpu && choice == Choice::Gpu);
    elsewhere.push_back({label(other, {.driver = true}), is_chosen, side->own_damage});
  }
  Pair pair;
  pair.comparison.tests = comparison.tests;
  pair.comparison.release = comparison.release;
  add_never_run(to_judge_, pair.comparison);
  const GapInput input{pair.comparison,
                       before.runs.front().record.environment.release,
                       now.runs.front().record.environment.release,
                       sides_[machine][from].shown,
                       sides_[machine][from].everywhere,
                       sides_[machine][to].shown,
                       sides_[machine][to].damage,
                       elsewhere};
  const Gaps gaps = gaps_of(input, history_, context_);
  leave_out_known_gaps(gaps, pair.comparison);
  pair.gate = std::make_unique<Gate>(Policy(), pair.comparison, gaps, context_.catalogue, "");
  return pair;
}

}  // namespace recapture::compare
