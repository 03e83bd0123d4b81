// A gate: a policy file, and the decision that follows from a comparison.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/base/shared.h"
#include "harness/compare/compare.h"
#include "harness/compare/gaps.h"

namespace recapture::compare {

// A change that a team has accepted.
struct Waiver {
  std::string test;    // A test, a case, or a glob such as "item*".
  std::string reason;  // Never empty.
  std::string until;   // "2026-12-31": through that day; "2.16": for upgrades to older releases; "": always.
};

struct Policy {
  // What blocks in scope. Damage always blocks, in or out of scope.
  std::set<Consequence> block = {Consequence::NewDamage, Consequence::NewErrors, Consequence::BrokenHandlers,
                                 Consequence::StoppedHolding, Consequence::NotCapturable};
  std::vector<std::string> scope;     // Tags, families and cases; empty: all cases.
  std::vector<std::string> without;   // Tags of what the program does not have.
  std::vector<std::string> machines;  // Words of their names; empty: any.
  std::vector<Waiver> waivers;
  Limits limits = {};   // Of the tests in scope.
  bool prices = false;  // Whether a changed price is also a failure in JUnit XML.
};

// The policy of `compare`: fails for every regression and for a changed price.
Policy compare_policy();

// The tag that a word means. Throws ExitError(Usage) for a word that is none, or is that of any program.
std::string require_feature(const std::string& word, const std::string& place);

// A word that this version still accepts under an older name, and the words that it means now.
struct RenamedWord {
  std::string word;
  std::vector<std::string> now;
};

// Adds such words to `renamed`. Throws ExitError(Usage) with file and line if the file is not a policy.
Policy read_policy(const std::string& path, std::vector<RenamedWord>& renamed);

// A test that a waiver lets pass, or a waiver without effect.
struct WaiverState {
  enum class Kind { Applied, Expired, WithoutEffect } kind;
  Waiver waiver;
  std::vector<std::string> tests;  // The regressions, and the tests without a result, that it names.
};

// How many tests of some cases have an answer.
struct TestCounts {
  size_t judged = 0, unknown = 0, not_measured = 0;

  size_t all() const { return judged + unknown + not_measured; }
  bool are_too_little_measured(const Limits& limits) const;
  bool are_too_unknown(const Limits& limits) const;
  void add(const TestCounts& other);
};

using CasesByConsequence = std::map<Consequence, std::set<std::string>>;

// What decides, the first that holds.
enum class DecisionReason {
  None,           // It passes.
  Blocks,         // A test blocks.
  Gaps,           // A test that could hide damage has no result.
  Unknown,        // More than the policy's limits is unknown or not measured.
  NothingJudged,  // Of a word of the scope.
};

struct Decision {
  DecisionReason why = DecisionReason::None;  // Improvements never block.
  std::set<std::string> blocking;             // The tests that block.
  CasesByConsequence blocking_cases = {};     // Their cases, apart from damage on another machine.
  CasesByConsequence outside_scope = {};      // Of regressions there.
  std::vector<WaiverState> waivers;           // In the policy's order.
  Shared<Gaps> gaps = {};                     // Without what a waiver or the policy's `without` lifts.
  CasesByConsequence not_met = {};            // Of regressions that a program does not meet
  std::set<std::string> absent = {};          // without these features.
  // Of each case that blocks or lacks a result, the features of which `without` may name one, if the case has any.
  std::map<std::string, std::vector<std::string>> lifted_by = {};
  TestCounts shown = {};     // Of the tests in scope and of cases that block.
  TestCounts in_scope = {};  // Of those that the program meets; the cases of tests that are unknown or not measured:
  std::vector<std::string> unknown_cases = {}, unmeasured_cases = {};
  Limits limits = {};                                      // Of the policy.
  std::vector<std::string> simulated = {}, unjudged = {};  // Words of the scope without a judged test.

  Exit exit() const;
};
// "passes", "blocked" or "cannot tell".
std::string_view answer_of(const Decision& decision);

// The cases of the catalogue that a program without these features does not meet.
std::set<std::string> cases_not_met(const std::vector<std::string>& without, const Catalogue& catalogue);

// Of tests that neither side has judged: they count as not measured.
void leave_out_known_gaps(const Gaps& gaps, Comparison& comparison);

// The tests of these cases that a comparison must have.
std::vector<std::string> tests_to_judge(const std::set<std::string>& cases, const Catalogue& catalogue);
// Adds those that neither side has run as not measured.
void add_never_run(const std::vector<std::string>& tests, Comparison& comparison);

// In cases that a policy names, a test that is not measured is unknown.
void demand_measured(const std::set<std::string>& cases, Comparison& comparison);

// What a gate is asked about: the cases that a policy's words or a program's features mean.
struct Scope {
  struct Word {
    std::string word;
    std::set<std::string> named, meant;  // Cases: by their ids or families, and also by their tags.
    bool is_simulated = false;           // All that it means.
  };
  std::vector<Word> words;
  std::set<std::string> cases;
};
// `words` are a policy's.
Scope scope_of(const std::vector<std::string>& words, std::set<std::string> cases, const Catalogue& catalogue);

// The same comparison for any scope: what does not depend on it is found once.
class Gate {
 public:
  // `all` is the comparison of all cases and must outlive this, `gaps` are its gaps; `today` is a date, "2026-11-25".
  // Throws ExitError(Usage) for a waiver that names no test.
  Gate(Policy policy, const Comparison& all, const Gaps& gaps, const Catalogue& catalogue, const std::string& today);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Without `lifted_by`.
  Decision decide(const Scope& scope) const;

 private:
  struct Found;
  std::unique_ptr<const Found> found_;
};

// For one scope.
Decision decide(const Policy& policy, const Comparison& all, const std::set<std::string>& scope,
                const Catalogue& catalogue, const std::string& today, const Gaps& gaps = {});

}  // namespace recapture::compare
