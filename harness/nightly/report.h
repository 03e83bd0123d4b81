// What a night is, said every night: what is red, flaky, missing and healed, place by place.
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

// "2026-11-22: red: 2 red (1 new, 1 still), 1 flaky, 1 healed, 3 machines of 3"
std::string first_line(const NightReport& report);
// "LibTorch 2.11.0 on NVIDIA H200: 2 red (1 new, 1 still since 2026-11-21)"
std::string heading(const PlaceState& place);
// "2026-11-21, 22, 24"
std::string nights_in_words(const std::vector<std::string>& nights);
// "red on 4 of 6 nights: 2026-11-21, 22, 23, 26"
std::string streak_in_words(const TestState& test);
// Why a test is not red any more.
std::string closing_words(NightState state);

std::string render_text(const NightReport& report);
std::string render_markdown(const NightReport& report);  // Below GitHub's limit for a job's summary.

// {"night", "before", "answer", "complete", "head", "missing": [{"task", "release", "gpu", "state", "since",
// "reason"}],
//  "machines": [{"machine", "release", "gpu", "first", "judged", "changed",
//                "red": [{"test", "state", "since", "consequence", "sentence", "nights", "window"}], "flaky", "healed",
//                "open", "missing", "changes", "slower", "not_judged": [{"reason", "tests"}], "never_judged",
//                "not_compared", "unexpected"}]}
Json render_json(const NightReport& report);

// Something is red (1), missing or not judged (6), changed or healed (5), or nothing (0).
Exit exit_for(const NightReport& report);

}  // namespace recapture::nightly
