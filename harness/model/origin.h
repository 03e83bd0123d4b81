// Whether the project made a run itself or somebody sent its record, which answers for its own machine alone.
#pragma once
#include <algorithm>
#include <set>
#include <string>

#include "harness/model/environment.h"

namespace recapture {

// Marked by `tools/add_records --origin`.
inline bool was_sent(const Environment& environment) { return !text_at(environment.json(), "origin").empty(); }

// The GPUs that a word of the command line may name: one of which somebody sent a record only if the word fits none of
// the project's own.
class GpusOnRecord {
 public:
  void add(const Environment& environment) { (was_sent(environment) ? sent_ : own_).insert(environment.machine.gpu); }

  // Throws ExitError(Usage) as GpuFilter does.
  GpuFilter named(const std::string& word) const {
    const GpuFilter filter(word);
    const bool is_own = std::ranges::any_of(own_, [&](const std::string& gpu) { return filter.covers(gpu); });
    return GpuFilter(word, is_own ? own_ : sent_);
  }
  bool contains(const std::string& gpu) const { return own_.contains(gpu) || sent_.contains(gpu); }

 private:
  std::set<std::string> own_, sent_;  // "" without a GPU.
};

}  // namespace recapture
