// The gate between any two releases that a machine ran, for many pairs at once: from judged runs in memory.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/compare/gaps.h"
#include "harness/compare/machine_pairs.h"
#include "harness/compare/policy.h"
#include "harness/compare/sides.h"

namespace recapture::compare {

class Gates {
 public:
  // The machines must outlive this.
  Gates(const std::vector<MachineSides>& machines, const CompareContext& context);

  // A gate and the comparison that it decides by, which has what neither side ran as well.
  struct Pair {
    Comparison comparison;
    std::unique_ptr<Gate> gate;
  };
  // Without a policy. `comparison` is that of the pair; the gate's own has no changes. If the machine was chosen,
  // damage on another GPU is a note, and if its driver was, that on another driver.
  enum class Choice { None, Gpu, GpuAndDriver };
  Pair gate_of(const MachinePair& place, const Comparison& comparison, Choice choice) const;

 private:
  struct OfSide {
    Shown shown, everywhere;                 // On this machine; with the other machines of the release.
    std::vector<Damage> damage, own_damage;  // With and without runs that stand in for the machine's own.
  };
  bool is_elsewhere(size_t other, size_t machine) const;
  const OfSide* side_of(size_t machine, const std::string& release) const;

  const std::vector<MachineSides>& machines_;
  const CompareContext& context_;
  History history_;
  std::vector<std::vector<OfSide>> sides_;  // By machine.
  std::vector<std::string> to_judge_;       // Tests.
};

// Cases that decide an upgrade: not those that we simulate.
std::set<std::string> cases_to_judge(std::set<std::string> scope, const Rules& rules, bool with_operators);

}  // namespace recapture::compare
