// What stands in the way of an upgrade: a policy file, and what a comparison means under it.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/compare/compare.h"

namespace recapture {

struct Policy {
  std::set<Consequence> block = {Consequence::SilentNow, Consequence::NewFailure, Consequence::RemedyGone};
  std::vector<std::string> concerns;  // Families, cases and features that are in use; all where there is none.
  int unknown = kMostUnknown;         // Of a hundred of the tests that concern us.
  bool prices = false;                // Whether a price that changed is a failure in JUnit's XML too.
};

// What `compare` fails for: all that hurts or costs something else.
Policy whatever_hurts();

// Throws Stop(Usage) with file and line for whatever is not a policy.
Policy read_policy(const std::string& path);

// The cases that a word concerns: those of a family, those that it names ("item*"), or all whose catalogue entry speaks
// of it ("DDP", "graphed callables"). Throws Stop(Usage) for a word that concerns none.
std::set<std::string> cases_concerned(const std::string& word, const Catalogue& catalogue);

// All of them for a policy without concerns.
std::set<std::string> cases_concerned(const Policy& policy, const Comparison& comparison, const Catalogue& catalogue);

struct Decision {
  Exit exit = Exit::AsExpected;  // What is only better never blocks.
  std::string answer;            // "passes", "blocked" or "cannot tell".
  std::string words;             // One line, which begins with it and says why.
};

// Tests of the cases that concern us and that no run of either side has: they are unknown.
void add_never_run(const Policy& policy, const Catalogue& catalogue, Comparison& comparison);

// Of a comparison that has been restricted to what concerns us.
Decision decide(const Policy& policy, const Comparison& comparison);

}  // namespace recapture
