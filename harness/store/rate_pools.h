// How often a race occurs on each kind of machine: which of its runs count, and with which others it is compared.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rate.h"
#include "harness/verdict/rules.h"

namespace recapture {

// One race on one kind of machine, of one code.
struct RatePool {
  std::string test;
  Release release;
  std::string machine;  // Its label begins with the release.
  MachineId id;
  std::vector<RateRun> runs;  // In the order of time.
  bool was_sent = false;
};

struct RateComparison {
  const RatePool* other;
  bool differs;
};

// Compares one of `pools` with the newest older release on the same machine and with the same release on each machine
// before it, where both have enough runs. A chosen library makes another machine.
std::vector<RateComparison> comparisons_of(const RatePool& pool, const std::vector<RatePool>& pools);

// All rates in the records, by test, in the order of releases. A run that is stored twice counts once.
std::vector<RatePool> rate_pools(const std::vector<Record>& records, const Rules& rules);

}  // namespace recapture
