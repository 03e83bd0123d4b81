// What is red, flaky, missing and healed on a night, place by place.
#pragma once
#include <string>
#include <vector>

#include "harness/nightly/nights.h"
#include "harness/nightly/state.h"

namespace recapture::nightly {

// A task without a complete record tonight; or one that lacked it the last night and has it now.
struct MissingTask {
  LackingTask lacking;
  bool is_closed = false;
  bool is_planned = true;  // Of a closed one: it has its record; else it is not in tonight's plan.
  std::string since;       // The first night of those without it; `is_new`: it is this one.
  bool is_new = false;
};

struct NightReport {
  std::string night, before;       // Names of their folders.
  std::vector<std::string> flaws;  // What is wrong with the nights, and places that are not planned any more.
  std::vector<PlaceState> places;
  std::vector<MissingTask> missing;

  bool is_complete() const;  // Nothing is missing, and all is judged that was judged before.
};

struct ReportChoice {
  std::string night;     // A gathered folder, or its name below that of all nights; "": the newest.
  std::string baseline;  // A folder of records that come before the first night; "": none.
};

// Of a night in the light of those before it, all of them folders that `recapture nightly collect` made, somewhere
// below `nights`. Throws as read_nights() does.
NightReport report_of(const std::string& nights, const ReportChoice& choice, const compare::CompareContext& background);

// How many tests are in which state.
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
