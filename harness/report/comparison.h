// A comparison, and the decision of a gate, as text, as Markdown for a pull request, as JSON, and as JUnit XML for CI.
// Every form begins with the answer.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/features.h"
#include "harness/compare/policy.h"

namespace recapture::report {

// "2 new errors, 3 healed": number of groups, worst first; "no change".
std::string render_counts(const compare::Comparison& comparison);

// "1022 of 1251 tests judged, 29 unknown, 200 not measured"
std::string render_judged(const compare::Comparison& comparison);

// What a gate lacks, and damage on other machines, in one line; "" if there is neither.
std::string render_gaps(const compare::Decision& decision, const std::string& from, const std::string& to);
// Why a gate decided so, with its gaps, in one line; "" if it passes.
std::string why_of(const compare::Decision& decision, const std::string& gaps);

// `decision` is a gate's; compare has none. `features` are the gate's scope, if observed in a program.
struct ComparisonReport {
  const compare::Comparison& comparison;
  const compare::Policy& policy;
  const compare::Decision* decision = nullptr;
  const compare::Features* features = nullptr;
};

// A part of the whole text. All parts, where nothing else is asked for.
struct Part {
  std::optional<std::set<compare::Consequence>> consequences = {};
  bool head = true, prices = true, unknown = true, not_measured = true;
};

// The words that name a part: breaks, heals, each consequence ("new-damage"), prices, unknown, not-measured.
const std::vector<std::string>& part_names();
// One of part_names(); a blank may stand for each hyphen.
std::optional<Part> part_from(std::string word);

// `is_whole` lists the cases of a change that affects many.
std::string render_text(const ComparisonReport& report, bool is_whole = false, const Part& part = {});

// A comparison in at most forty lines: what breaks, with a fix for each; what heals; the number of everything else,
// each with the command that prints it. `command` is what the user typed, without --all and --only.
std::string render_summary(const ComparisonReport& report, const std::string& command);

// A gate in at most ten lines: the decision, what blocks, and a fix for each.
std::string render_short(const ComparisonReport& report);

// At most 20,000 bytes, for a comment: harmless changes are folded, and what does not fit is left out and counted.
std::string render_markdown(const ComparisonReport& report);

// {"from", "to", "machine", "gpu", "driver", "variables", "libraries", "not_on_record", "judged", "unknown",
//  "unknown_tests": [{"test", "reason", "ran"}], "not_measured", "not_measured_tests": [{"test", "reason"}], "counts":
//  {consequence: {"changes", "tests"}}, "changes": [{"consequence", "case", "tests", "was", "is", "sentence", "fixes":
//  [{"advice", "fix"}], "upstream",
//               "upstream_changes": [{"what", "number", "since", "title", "url"}], "group", "blocks"}],
//  "prices": [{"before", "now"}] where some changed, "policy": {"block", "scope", "unknown", "not_measured",
//  "waivers"}, "exit", "schema", "answer", and of a gate "why", "blocking", "outside_scope", "waivers", "features"
//  (docs/reference/gate-json.md)}
Json render_json(const ComparisonReport& report);

// What blocks is a failure; an unknown test is an error, or skipped if a side could not run it; a test that is not
// measured is skipped.
std::string render_junit(const ComparisonReport& report);

}  // namespace recapture::report
