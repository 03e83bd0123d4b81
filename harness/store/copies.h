// Runs that are stored more than once: a copy, or a shard that a merged record has too.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/environment.h"

namespace recapture {

struct StoredRun {
  std::vector<std::string> ids;  // The run's own; of a merged record those of all its shards. None in old records.
  size_t lines = 0;              // How much of the run it has, if known.
};

// Whether one is a copy of the other, or a shard of it.
bool are_of_one_run(const Environment& a, const Environment& b);

// Of runs of one kind of machine, the places of those that count, in their order. Of runs that share an id the one with
// the most lines counts; of these the one with the most ids; of these the first.
std::vector<size_t> each_once(const std::vector<StoredRun>& runs);

// The same where it is not known how much each has.
std::vector<size_t> each_once(const std::vector<const Environment*>& runs);

}  // namespace recapture
