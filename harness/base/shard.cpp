#include "harness/base/shard.h"

#include <charconv>

namespace recapture {

std::optional<Shard> shard_of(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool has_slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  const auto of = has_slash ? std::from_chars(index.ptr + 1, end, shard.of) : index;
  if (!has_slash || of.ec != std::errc() || of.ptr != end || shard.index < 1 || shard.index > shard.of ||
      shard.of > kMostShards) {
    return {};
  }
  return shard;
}

}  // namespace recapture
