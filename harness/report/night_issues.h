// The issues of a night: one for each cause, across all places.
#pragma once
#include <string>
#include <vector>

#include "harness/nightly/report.h"

namespace recapture::report {

struct NightIssue {
  std::string fingerprint;  // From the cause alone: the same on all nights and machines.
  bool is_open = true;      // False: it healed tonight.
  std::string title, body;
  std::vector<std::string> labels;
};

// An open issue is listed on every night on which it is red, flaky or missing, a healed one on the night it healed.
std::vector<NightIssue> issues_of(const nightly::NightReport& report, const compare::CompareContext& background);

// [{"fingerprint", "state": "open" or "healed", "title", "body", "labels"}]
Json render_json(const std::vector<NightIssue>& issues);

}  // namespace recapture::report
