// A comparison, and the decision of a gate, for people, for a pull request's page, for programs and for a CI's list of
// tests. Every form begins with the answer.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/features.h"
#include "harness/compare/policy.h"

namespace recapture::report {

// One change: it differs in nothing but the case, or in what a capture leaves behind.
using Alike = std::vector<const compare::CaseChange*>;

// In the order of the first of each. Points into the comparison.
std::vector<Alike> groups_of(const compare::Comparison& comparison);

// "2 new errors, 3 healed": of groups, the worst first; "no change".
std::string render_counts(const compare::Comparison& comparison);

// "1022 of 1251 tests judged, 29 unknown, 200 not measured"
std::string render_judged(const compare::Comparison& comparison);

// `decision` is a gate's; compare has none. `features` are what a gate took as its scope, where a program showed it.
struct ComparisonReport {
  const compare::Comparison& comparison;
  const compare::Policy& policy;
  const compare::Decision* decision = nullptr;
  const compare::Features* features = nullptr;
};

// `is_whole` names the cases of a change that hits many.
std::string render_text(const ComparisonReport& report, bool is_whole = false);

// Of a gate, ten lines at most: the verdict, what blocks, and a fix of each.
std::string render_short(const ComparisonReport& report);

// At most 20,000 bytes, for a comment: what does not hurt is folded, and what is too much is left out and counted.
std::string render_markdown(const ComparisonReport& report);

// {"from", "to", "machine", "gpu", "driver", "variables", "libraries", "judged", "unknown",
//  "unknown_tests": [{"test", "reason", "ran"}], "not_measured", "not_measured_tests": [{"test", "reason"}], "counts":
//  {consequence: {"changes", "tests"}}, "changes": [{"consequence", "case", "tests", "was", "is", "sentence", "fixes":
//  [{"advice", "fix"}], "upstream",
//               "upstream_changes": [{"what", "number", "since", "title", "url"}], "group", "blocks"}],
//  "prices": [{"before", "now"}] where some changed, "policy": {"block", "scope", "unknown", "not_measured",
//  "waivers"}, "exit", "schema", "answer", and of a gate "why", "blocking", "outside_scope", "waivers", "features"
//  (docs/reference/gate-json.md)}
Json render_json(const ComparisonReport& report);

// What blocks is a failure; what is unknown an error, or skipped where a side could not run it; what is not measured is
// skipped.
std::string render_junit(const ComparisonReport& report);

}  // namespace recapture::report
