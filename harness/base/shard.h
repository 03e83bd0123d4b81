// One shard of a run.
#pragma once
#include <optional>
#include <string>

namespace recapture {

// Every `of`-th case, starting with the `index`-th.
struct Shard {
  int index = 1, of = 1;
};

constexpr int kMostShards = 1000;  // More than the number of cases.

// Parses i/n with 1 <= i <= n <= kMostShards; nothing for anything else.
std::optional<Shard> shard_of(const std::string& text);

}  // namespace recapture
