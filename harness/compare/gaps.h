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
#include "harness/store/result_store.h"
#include "harness/verdict/judge.h"

namespace recapture::compare {

// What runs show of each test, by the code of its case.
class Shown {
 public:
  void add(const JudgedRun& run, const Rules& rules);
  void add(const Shown& other);

  bool has_judged(const std::string& test, const std::string& code) const;
  bool has(const std::string& test, const std::string& code, State state) const;
  // By test, judged with any code; not those whose API is not there.
  const auto& states() const { return states_; }
  // Those of operators among them.
  const std::set<std::string>& operators() const { return operators_; }
  // A run shows that the API of the test is not there, and none has a result of it.
  bool is_absent(const std::string& test) const { return absent_.count(test) != 0 && states_.count(test) == 0; }

 private:
  std::map<std::string, std::set<std::pair<std::string, State>>> states_;  // In the worst try of each run.
  std::set<std::string> absent_;                                           // Their APIs are not there.
  std::set<std::string> operators_;                                        // Of the tests in states_.
};

// What all records show.
class History {
 public:
  // With what `base` has, which must outlive this.
  explicit History(const CompareContext& context, const History* base = nullptr);

  // Not a run that somebody sent: it answers for its own machine alone.
  void add(const JudgedRun& run, const Rules& rules);

  // Whether the failure of one of its tests is damage, by its description, by what is expected of it, or in a run.
  bool can_hide_damage(const std::string& case_id) const {
    return damaging_.count(case_id) != 0 || (base_ != nullptr && base_->can_hide_damage(case_id));
  }
  // Whether a release older than both shows the same.
  bool was_there_before(const Release& from, const Release& to, const std::string& test, const std::string& code,
                        State state) const;

 private:
  const History* base_;
  std::map<Release, Shown> releases_;  // On all machines, with their own libraries.
  std::set<std::string> damaging_;     // Cases; with any libraries.
};

// A test that shows damage.
struct Damage {
  std::string test, code;
  State state = State::SilentlyWrong;
  bool is_rate = false;
  bool is_disputed = false;  // Another of these runs, of the same code, is evidence of no damage.
};
// Of each test's newest code in these runs of one machine.
std::vector<Damage> damage_in(const ResultStore& store, const Rules& rules);

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
  const Shown& then;                     // The older side on the machine compared,
  const Shown& older;                    // and on all machines.
  const Shown& now;                      // The newer side on the machine compared,
  const std::vector<Damage>& damage;     // and its damage there,
  std::span<const Elsewhere> elsewhere;  // and on other machines.
};
Gaps gaps_of(const GapInput& input, const History& history, const CompareContext& context);

// The cases that history must know for this: those that hide no damage by their descriptions, and those with damage
// that only the newer side shows.
std::set<std::string> cases_in_question(const GapInput& input, const CompareContext& context);

}  // namespace recapture::compare
