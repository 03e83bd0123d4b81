// What is red, flaky, missing or healed on a night, by place.
#pragma once
#include <string>
#include <vector>

#include "harness/nightly/nights.h"
#include "harness/nightly/state.h"

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
  std::vector<std::string> flaws;  // Errors of the nights, and places that are no longer planned.
  std::vector<PlaceState> places;
  std::vector<MissingTask> missing;

  bool is_complete() const;  // Nothing is missing, and every test that was judged before is judged.
};

struct ReportChoice {
  std::string night;     // A collected folder, or its name below that of all nights; "": the newest.
  std::string baseline;  // A folder of records to put before the first night; "": none.
};

// Compares a night with earlier ones, all of them folders below `nights` that `recapture nightly collect` made. Throws
// as read_nights() does.
NightReport report_of(const std::string& nights, const ReportChoice& choice, const compare::CompareContext& background);

// The number of tests in each state.
struct Tally {
  size_t fresh = 0, still = 0, flaky_red = 0, flaky = 0, healed = 0, closed = 0, open = 0, changes = 0, not_judged = 0;
  std::string oldest;  // The first night of the test that has been red longest.

  size_t red() const { return fresh + still + flaky_red; }
};
Tally tally_of(const PlaceState& place);
Tally tally_of(const NightReport& report);

// Tasks without a complete record tonight.
size_t missing_tasks(const NightReport& report);

// Something is red (1), missing or not judged (6), changed or healed (5), or nothing (0).
Exit exit_for(const NightReport& report);

}  // namespace recapture::nightly
