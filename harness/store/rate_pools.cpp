#include "harness/store/rate_pools.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/model/origin.h"
#include "harness/store/copies.h"

namespace recapture {

std::vector<RateComparison> comparisons_of(const RatePool& pool, const std::vector<RatePool>& pools) {
  std::vector<RateComparison> found;
  std::optional<RateComparison> with_older;
  for (const RatePool& other : pools) {  // In the order of releases.
    if (&other == &pool) break;
    if (other.test != pool.test || (other.was_sent && !pool.was_sent)) continue;
    const auto differs = changed(other.runs, pool.runs);
    if (!differs) continue;
    if (other.release == pool.release) {
      found.push_back({&other, *differs});
    } else if (other.release.is_version() && pool.release.is_version() &&
               other.id.with_overrides() == pool.id.with_overrides()) {
      with_older = {&other, *differs};
    }
  }
  if (with_older) found.push_back(*with_older);
  return found;
}

std::vector<RatePool> rate_pools(const std::vector<Record>& records, const Rules& rules) {
  struct Found {
    const Record* record;
    RateRun run;
  };
  std::map<std::pair<std::string, MachineKind>, std::vector<Found>> by_kind;  // Test and kind of machine.
  for (const Record& record : records) {
    for (const TestRecord& test : record.tests) {
      if (const auto run = rate_run(record, test, rules)) {
        by_kind[{test.id(), record.environment.kind}].push_back({&record, *run});
      }
    }
  }
  std::vector<RatePool> pools;
  for (auto& [where, found] : by_kind) {
    std::ranges::stable_sort(found, {}, [](const Found& each) { return each.record->environment.started; });
    std::vector<const Environment*> environments;
    for (const Found& each : found) environments.push_back(&each.record->environment);
    const Record& newest = *found.back().record;
    RatePool pool{where.first, where.second.release,        newest.machine(), newest.environment.machine,
                  {},          was_sent(newest.environment)};
    for (const size_t place : each_once(environments)) pool.runs.push_back(found[place].run);
    pools.push_back(std::move(pool));
  }
  std::ranges::stable_sort(pools, {}, [](const RatePool& pool) { return std::tie(pool.test, pool.release); });
  return pools;
}

}  // namespace recapture
