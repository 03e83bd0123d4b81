// Every two releases of all machines at once: on which machine `compare` compares them, and which others fill in.
#pragma once
#include <compare>
#include <cstddef>
#include <vector>

#include "harness/compare/sides.h"

namespace recapture::compare {

// Two releases of a machine, by their places in the list of machines and in its releases.
struct MachinePair {
  size_t machine = 0, from = 0, to = 0;

  auto operator<=>(const MachinePair&) const = default;
};

struct ChosenPair {
  MachinePair used;                  // Of the machines with both releases, the one with the smallest rank_machine().
  std::vector<MachinePair> fill_in;  // Other GPUs that fill_in() may take results of, the best first.
};

// By the names of the two releases.
std::vector<ChosenPair> choose_pairs(const std::vector<MachineSides>& machines, const Rules& rules);

}  // namespace recapture::compare
