// Writes and reads archives in POSIX format (ustar), of plain files with short names.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

struct TarMember {
  std::string name, text;
};

// No times, no owner, in the given order: the same files give the same bytes.
std::string tar_of(const std::vector<TarMember>& members);

// Points into the archive.
struct TarEntry {
  std::string_view name;  // "" at the archive's end.
  std::string_view text;
  size_t next = 0;  // Where the next entry begins.
};

// The entry that begins at `at`; nothing if the text ends within it. Throws std::runtime_error for what is no plain
// file with a short name.
std::optional<TarEntry> tar_entry(std::string_view tar, size_t at);

}  // namespace recapture
