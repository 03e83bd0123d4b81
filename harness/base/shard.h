// Which part of a run.
#pragma once
#include <optional>
#include <string>

namespace recapture {

// One of the parts that a run is split into: every `of`-th case, from the `index`-th on.
struct Shard {
  int index = 1, of = 1;
};

constexpr int kMostShards = 1000;  // More than there are cases.

// None for anything else than i/n with i from 1 to n, and n up to kMostShards.
std::optional<Shard> shard_of(const std::string& text);

}  // namespace recapture
