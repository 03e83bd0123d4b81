#include "harness/run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "harness/record/exit.h"

namespace recapture {
namespace {

bool names(const std::string& filter, const CaseInfo& info, const std::string& test) {
  return filter == info.family || filter == info.id || filter == info.id + "." + test;
}

}  // namespace

Shard read_shard(const std::string& text) {
  Shard shard;
  if (std::sscanf(text.c_str(), "%d/%d", &shard.index, &shard.of) != 2 || shard.index < 1 || shard.index > shard.of) {
    throw Stop(Exit::Usage, "--shard takes i/n with i from 1 to n, not '" + text + "'");
  }
  return shard;
}

std::vector<PlannedCase> plan_of(const std::vector<CaseBinary>& all, const std::vector<std::string>& filters,
                                 Break broken, const Shard& shard) {
  std::vector<bool> used(filters.size());
  std::vector<PlannedCase> plan;
  int index = 0;
  for (const CaseBinary& binary : all) {
    PlannedCase planned{binary, {}};
    for (const std::string& test : binary.info.tests) {
      bool named = filters.empty();
      for (size_t i = 0; i < filters.size(); ++i) {
        if (!names(filters[i], binary.info, test)) continue;
        used[i] = named = true;
      }
      const bool concerned = broken == Break::Nothing || kind_of(test) == breakable_kind(broken);
      if (named && concerned) planned.tests.push_back(test);
    }
    if (!planned.tests.empty() && index++ % shard.of == shard.index - 1) plan.push_back(planned);
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) {
    throw Stop(Exit::Usage, fmt::format("no family, case or test is called '{}'; `recapture list` names them",
                                        filters[static_cast<size_t>(unused - used.begin())]));
  }
  return plan;
}

}  // namespace recapture
