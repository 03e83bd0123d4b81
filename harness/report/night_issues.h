// The issues of a night, one for each cause wherever that is seen.
#pragma once
#include <string>
#include <vector>

#include "harness/nightly/report.h"

namespace recapture::report {

struct NightIssue {
  std::string fingerprint;  // Of the cause alone: the same on all nights and machines.
  bool is_open = true;      // False: it has healed tonight.
  std::string title, body;
  std::vector<std::string> labels;
};

// One that is open is given on every night on which it is red, flaky or missing, and one that has healed on that night.
std::vector<NightIssue> issues_of(const nightly::NightReport& report, const compare::CompareContext& background);

// [{"fingerprint", "state": "open" or "healed", "title", "body", "labels"}]
Json render_json(const std::vector<NightIssue>& issues);

}  // namespace recapture::report
