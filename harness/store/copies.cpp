#include "harness/store/copies.h"

#include <algorithm>
#include <unordered_map>

namespace recapture {

bool are_of_one_run(const Environment& a, const Environment& b) {
  return std::ranges::any_of(
      a.run_ids, [&](const std::string& id) { return std::ranges::find(b.run_ids, id) != b.run_ids.end(); });
}

std::vector<size_t> each_once(const std::vector<StoredRun>& runs) {
  std::unordered_map<std::string, size_t> owners;  // By id.
  const auto size = [&](size_t run) { return std::pair(runs[run].lines, runs[run].ids.size()); };
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const std::string& id : runs[run].ids) {
      const auto [owner, is_new] = owners.try_emplace(id, run);
      if (!is_new && size(owner->second) < size(run)) owner->second = run;
    }
  }
  std::vector<size_t> kept;
  for (size_t run = 0; run < runs.size(); ++run) {
    const auto owns = [&](const std::string& id) { return owners.at(id) == run; };
    if (std::ranges::all_of(runs[run].ids, owns)) kept.push_back(run);
  }
  return kept;
}

std::vector<size_t> each_once(const std::vector<const Environment*>& runs) {
  std::vector<StoredRun> stored;
  for (const Environment* run : runs) stored.push_back({run->run_ids});
  return each_once(stored);
}

}  // namespace recapture
