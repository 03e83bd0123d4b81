// A comparison for people, for a pull request's page, for programs and for a CI's list of tests.
#pragma once
#include <string>

#include "harness/compare/compare.h"
#include "harness/compare/policy.h"

namespace recapture {

// Changes that differ in nothing but the case.
using Alike = std::vector<const CaseChange*>;

// In the order of the first of each. Points into the comparison.
std::vector<Alike> groups_of(const Comparison& comparison);

std::string as_text(const Comparison& comparison);

// Below the megabyte that GitHub takes as the summary of a job: what is too much is left out and counted.
std::string as_markdown(const Comparison& comparison);

// {"from","to","judged","unknown","changes":[{"consequence","case","tests","sentence",
//  "fixes":[{"advice","fix"}],"upstream"}],
//  and where some changed "prices":[{"before","now"}]}
Json as_json(const Comparison& comparison);

// What the policy blocks is a failure, what is unknown an error, or skipped where a side said that it cannot run it.
std::string as_junit(const Comparison& comparison, const Policy& policy);

// "558 judged, 135 unknown: 2 silent now, 3 new failures, …"
std::string counts_of(const Comparison& comparison);

}  // namespace recapture
