#include "harness/store/copies.h"

#include <algorithm>
#include <unordered_map>

namespace recapture {

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

}  // namespace recapture
