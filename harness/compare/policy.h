// A gate: a policy file, and the decision that follows from a comparison.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/compare/compare.h"

namespace recapture::compare {

// A change that a team has accepted.
struct Waiver {
  std::string test;    // A test, a case, or a glob such as "item*".
  std::string reason;  // Never empty.
  std::string until;   // "2026-12-31": through that day; "2.16": for upgrades to older releases; "": always.
};

struct Policy {
  // What blocks in scope. New damage always blocks, in or out of scope.
  std::set<Consequence> block = {Consequence::NewDamage, Consequence::NewErrors, Consequence::BrokenHandlers,
                                 Consequence::StoppedHolding, Consequence::NotCapturable};
  std::vector<std::string> scope;  // Tags, families and cases; empty: all cases.
  std::vector<Waiver> waivers;
  Limits limits = {};   // Of the tests in scope.
  bool prices = false;  // Whether a changed price is also a failure in JUnit XML.
};

// The policy of `compare`: fails for every regression and for a changed price.
Policy compare_policy();

// Words that this version still accepts under an older name are added to `notes`, a line each for the user. Throws
// ExitError(Usage) with file and line if the file is not a policy.
Policy read_policy(const std::string& path, std::vector<std::string>& notes);

// A test that a waiver lets pass, or a waiver without effect.
struct WaiverState {
  enum class Kind { Applied, Expired, WithoutEffect } kind;
  Waiver waiver;
  std::vector<std::string> tests;  // The regressions that it names.
};
std::string to_string(const WaiverState& state);

struct Decision {
  Exit exit = Exit::AsExpected;      // Improvements never block.
  std::string answer;                // "passes", "blocked" or "cannot tell".
  std::string reason;                // One line without the answer; may be empty.
  std::set<std::string> blocking;    // The tests that block.
  std::string outside_scope;         // One line on regressions outside the scope; "" if none.
  std::vector<WaiverState> waivers;  // In the policy's order.
};

// Adds tests in scope that neither side has run as not measured.
void add_never_run(const std::set<std::string>& cases, const Catalogue& catalogue, Comparison& comparison);

// In cases that a policy names, a test that is not measured is unknown.
void demand_measured(const std::set<std::string>& cases, Comparison& comparison);

// `all` is the comparison of all cases and `scope` the cases in scope; `today` is a date, "2026-11-25". Throws
// ExitError(Usage) for a waiver that names no test.
Decision decide(const Policy& policy, const Comparison& all, const std::set<std::string>& scope,
                const Catalogue& catalogue, const std::string& today);

}  // namespace recapture::compare
