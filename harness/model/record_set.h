// Records apart from the program: the part of a tree that the program reads, made after the program was. They lie
// beside an installed program (the wheel recapture-records puts them there), or in a folder that --records names.
#pragma once
#include <optional>
#include <string>

namespace recapture {

// Rises with any change of cases/, reports/ or ci/matrix.toml that an older program would misread.
// harness/install.cmake reads the number here.
inline constexpr int kRecordSetFormat = 2;
inline constexpr const char* kRecordSetFile = "records.toml";

struct RecordSet {
  std::string folder;
  std::string made;      // The time of its commit, in UTC: "2026-11-29T06:53:34Z".
  std::string revision;  // Its commit.
};

// What records.toml in this folder says; nothing if there is none. Throws ExitError(Usage) if it cannot be read, or is
// for a newer program.
std::optional<RecordSet> record_set_in(const std::string& folder);

}  // namespace recapture
