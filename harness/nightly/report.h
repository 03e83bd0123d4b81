// What is red, flaky, missing or healed on a night, by place.
#pragma once
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "harness/nightly/accepted.h"
#include "harness/nightly/nights.h"
#include "harness/nightly/state.h"
#include "harness/nightly/state_file.h"

namespace recapture::nightly {

// A task without a complete record tonight; or one that lacked it last night and has one now.
struct MissingTask {
  LackingTask lacking;
  bool is_closed = false;
  bool is_planned = true;  // False: it is no longer in tonight's plan.
  std::string since;       // The first night without it; `is_new`: tonight.
  bool is_new = false;
};

struct NightReport {
  std::string night, before;       // Names of their folders.
  std::vector<std::string> flaws;  // Errors of the nights and of the state, and places that are no longer planned.
  std::vector<std::string> notes;  // What changes no exit code: entries that have expired.
  std::vector<PlaceState> places;
  std::vector<MissingTask> missing;

  bool is_complete() const;  // Nothing is missing, and every test is judged or accepted.
};

struct ReportChoice {
  std::string night;     // A collected folder, or its name below that of all nights; "": the newest.
  std::string baseline;  // A folder of records to put before the first night; "": none.
  bool first = false;    // Begin again: make the state from the nights that are kept,
  std::string from;      // from this one on; "": from the oldest.
  std::vector<Acceptance> accepted = {};
  // If both are known and no night is named, the newest night must not be older than its period.
  std::optional<std::time_t> now = {};
  int period_days = 0;
};

struct ReportedNight {
  NightReport report;
  std::string state_path;           // Where the state of this night belongs.
  std::optional<SavedState> state;  // None without one of an earlier night, and of a night that is not the newest.
};

// Compares a night with earlier ones, all of them folders below `nights` that `recapture nightly collect` made: with
// the state of an earlier night and the nights since. Throws as read_nights() does.
ReportedNight report_of(const std::string& nights, const ReportChoice& choice,
                        const compare::CompareContext& background);

// The number of tests in each state.
struct Tally {
  size_t fresh = 0, still = 0, flaky_red = 0, flaky = 0, healed = 0, closed = 0, open = 0, changes = 0, not_judged = 0;
  size_t accepted = 0;  // Not judged, and accepted by an entry; in no other number.
  std::string oldest;   // The first night of the test that has been red longest.

  size_t red() const { return fresh + still + flaky_red; }
};
Tally tally_of(const PlaceState& place);
Tally tally_of(const NightReport& report);

// Tasks without a complete record tonight.
size_t missing_tasks(const NightReport& report);

// Something is red (1), missing or not judged (6), changed or healed (5), or nothing (0).
Exit exit_for(const NightReport& report);

}  // namespace recapture::nightly
