// The state of a night: what the next night needs of all nights before. A small file beside the night's records, so
// that what is red does not depend on how many nights are kept.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/nightly/nights.h"
#include "harness/nightly/state.h"

namespace recapture::nightly {

inline constexpr const char* kStateFile = "state.json";
inline constexpr int kStateFormat = 1;
inline constexpr size_t kMostStateBytes = size_t{64} << 20;  // A release takes about one megabyte, 0.5 KB a test.
inline constexpr size_t kMostNamesOfNights = 1000;

// With which night the state begins, and on which a person said so.
struct Beginning {
  std::string night, started;  // The first night of which it knows.
  std::string chosen;          // The night that `nightly diff --first` reported, and its date.
  std::string date;
};

struct MissingSince {
  NightTask task;
  std::string reason, since;
  bool is_incomplete = false;
};

struct SavedState {
  std::string night, started;  // Of the night that it describes.
  Beginning first;
  NightPlan plan;
  std::vector<std::pair<std::string, std::string>> nights;  // All that it knows: when each began, and its name.
  std::map<std::string, std::string> runs;                  // Ids of runs, each with the night that has it.
  std::vector<MissingSince> missing;
  std::map<MachineKind, PlaceHistory> places;

  bool knows(const Night& night) const;
};

Json to_json(const SavedState& state);
// Throws std::exception with what is wrong with it.
SavedState state_from(const Json& json, const compare::CompareContext& background);

// The file's text: with a hash, so that a change of it is seen.
std::string text_of(const SavedState& state);

// Throws ExitError(Usage) with one line: it is a link, too large, cut, of another format, or not what was written.
SavedState read_state(const std::string& path, const compare::CompareContext& background);

// Writes it completely or not at all. Throws ExitError(Infrastructure).
void write_state(const std::string& path, const SavedState& state);

}  // namespace recapture::nightly
