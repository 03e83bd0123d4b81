// What a gate must know besides the comparison of two sides: what could be hidden where a result is lacking, and damage
// that the comparison does not show.
#pragma once
#include <array>
#include <compare>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/model/release.h"
#include "harness/verdict/judge.h"

namespace recapture::compare {

// What runs show of each test, by the code of its case.
class Shown {
 public:
  void add(const JudgedRun& run, const Rules& rules);

  bool has_judged(const std::string& test, const std::string& code) const;
  bool has(const std::string& test, const std::string& code, State state) const;
  // Judged with any code; not those whose API is not there.
  std::set<std::string> tests() const;

 private:
  std::map<std::string, std::set<std::pair<std::string, State>>> states_;  // In the worst try of each run.
};

// What all records show.
class History {
 public:
  void add(const JudgedRun& run, const Rules& rules);

  bool has_damage(const std::string& case_id) const { return damaged_cases_.count(case_id) != 0; }
  // On all machines, with its own libraries.
  const Shown& of(const Release& release) const;
  // Whether a release older than both shows the same.
  bool was_there_before(const Release& from, const Release& to, const std::string& test, const std::string& code,
                        State state) const;

 private:
  std::map<Release, Shown> releases_;
  std::set<std::string> damaged_cases_;  // With any libraries.
};

// A test that shows damage.
struct Damage {
  std::string test, code;
  State state = State::SilentlyWrong;
  bool is_rate = false;
};
// Of each test's newest code in these runs of one machine.
std::vector<Damage> damage_in(std::span<const JudgedRun> runs, const Rules& rules);

struct Elsewhere {
  std::string machine;  // "NVIDIA H100, driver 580.159.04"
  bool is_chosen = true;
  std::vector<Damage> damage;
};

enum class GapKind {
  NoResult,      // The older side judged the test, and the newer one did not.
  RunsDisagree,  // One of the newer side's runs shows damage, and the one that counts does not.
  OnlyNewer,     // The newer side shows damage, and the older one has no result.
};
inline constexpr std::array<std::string_view, 3> kGapKinds = {"no result", "runs disagree", "only newer"};
inline std::string_view to_string(GapKind kind) { return kGapKinds.at(static_cast<size_t>(kind)); }

struct Gap {
  GapKind kind = GapKind::NoResult;
  std::string test;

  auto operator<=>(const Gap&) const = default;
};

// New damage on a machine that was not compared.
struct DamagedMachine {
  std::string machine;
  bool is_chosen = true;
  std::set<std::string> tests;
};

struct Gaps {
  std::set<Gap> open;           // Each is "cannot tell".
  std::set<std::string> known;  // Tests that neither side has judged.
  std::vector<DamagedMachine> elsewhere = {};
};

struct GapInput {
  const Comparison& comparison;
  Release from, to;
  const std::set<std::string>& judged_then;  // Tests that the older side judged on the machine compared.
  const Shown& older;                        // Its runs on all machines.
  const std::vector<Damage>& newer;          // Of the newer side on the machine compared.
  std::span<const Elsewhere> elsewhere;      // Of the newer side.
};
Gaps gaps_of(const GapInput& input, const History& history, const CompareContext& background);

// The cases that history must know for this: those that hide no damage by their descriptions, and those with damage
// that only the newer side shows.
std::set<std::string> cases_in_question(const GapInput& input, const CompareContext& background);

}  // namespace recapture::compare
