// The state of each test of a place (a release on a kind of GPU) on a night, given the nights before: red since when,
// flaky, or healed. A state, not an event: a red test is in every report until it heals.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/pairs.h"
#include "harness/verdict/duration.h"

namespace recapture::nightly {

// The number of nights with a result that decide whether a test is flaky.
inline constexpr size_t kWindow = 7;

// How many runs of a race are its baseline at most.
inline constexpr size_t kMostRaceRuns = 30;

enum class NightState {
  New,        // Red tonight, not on the last night with a clear result.
  Still,      // Red tonight and on that night.
  Flaky,      // Two separate red streaks in the window, or two runs or a repetition within a night differ.
  NotJudged,  // Was red or flaky; no clear result tonight.
  Edited,     // Was red or flaky; since then its code has changed, or it cannot be compared with its baseline.
  Unplanned,  // Was red or flaky; no longer part of the run.
  Healed,     // Was red; ran with the same code, and is right.
  Steady,     // Was flaky; is neither flaky nor red tonight.
  Accepted,   // Was red or flaky; tonight's record is marked as a baseline.
};
std::string_view to_string(NightState state);
bool is_closed(NightState state);  // Healed and all later ones.
bool is_open(NightState state);    // Red or flaky, by a result.

// A change of a test from its baseline; or what is wrong with it without one.
struct TestChange {
  std::string test;
  compare::Consequence consequence = compare::Consequence::Same;  // Same: no night saw a change.
  compare::Change change = {};
  std::string from = {}, to = {};           // The nights of its two sides.
  std::string verdict = {}, observed = {};  // Of a test that is wrong without a comparison, in place of the above.

  bool has_change() const { return consequence != compare::Consequence::Same || !verdict.empty(); }
  std::string what() const { return verdict.empty() ? std::string(to_string(consequence)) : verdict; }
};

struct TestState {
  NightState state = NightState::New;
  bool is_red = false;                  // Tonight.
  TestChange change;                    // Of the newest red night; empty for a test that was never red.
  std::string since;                    // The first night of its newest red streak.
  std::vector<std::string> red_nights;  // Of the window; for a flaky test also those whose repetition differed.
  bool has_unconfirmed = false;         // A repetition or another run differed on one of them.
  size_t window = 0;                    // Nights with a result in it, at most kWindow.
  std::string fingerprint;              // Of its issue: equal on all nights.
  std::string runs;                     // The runs of tonight that disagree, in words; "" if they agree.
  std::string unresolved;               // Since which night it is edited or not planned; "" if it is neither.
  std::string accepted;                 // As in NotJudged.
  std::string seen;                     // The original text of the newest red night.
  std::string driver, runtime;          // Of the last night that was not red.
  std::vector<compare::UpstreamChange> upstream;
  std::optional<double> seconds;  // Tonight.
};

// A test's time, and its usual time if it changed.
struct TestTime {
  std::string test;
  double seconds = 0;
  int width = 0;  // How many tests ran in parallel; 0 if unknown.
  std::optional<double> median;
};

// Tests grouped by reason.
using TestsByReason = std::map<std::string, std::vector<std::string>>;

// A test without a clear result tonight that had one on an earlier night, or that should have one.
struct NotJudged {
  std::string test, reason;
  std::string since;      // The first of these nights in a row.
  bool is_never = false;  // It had none on any night.
  std::string accepted;   // "until 2027-05-01: …" if an entry of ci/accepted.toml accepts it.
};

struct PlaceState {
  std::string release, gpu;  // "" without a GPU.
  std::string name;          // "LibTorch 2.11.0 on NVIDIA H200"
  std::string driver, runtime;
  Environment environment;  // Of its newest run.
  bool is_here = true;      // It has a run tonight.
  bool is_needed = true;    // False: it has none, and its tasks ran on another machine or are not planned.
  bool is_planned = true;
  std::string absent_since;         // The first night without a run; "" if it has one.
  bool is_first = false;            // It has no earlier run: this is its baseline.
  size_t judged = 0;                // Tests with a clear result.
  std::vector<std::string> moves;   // "driver 580 -> 590"
  std::vector<TestState> tests;     // Only those with a state.
  std::vector<TestChange> changes;  // Harmless changes.
  std::vector<NotJudged> not_judged;
  TestsByReason new_baseline;           // Tonight is their baseline, but not the first night of the place.
  std::vector<std::string> unexpected;  // In a baseline of tonight, neither documented nor expected.
  double seconds = 0;                   // Sum over all tests.
  int width = 0;                        // How many ran in parallel; 0 if unknown.
  std::vector<TestTime> slowest;        // The ten slowest.
  std::vector<TestTime> slower;         // With their medians.
  std::map<std::string, std::vector<std::string>> remedies;  // By case: the fixes that hold, in a sentence each.
};

// One place's runs of a night.
struct PlaceRuns {
  std::string night;
  std::vector<JudgedRun> runs;  // Newest first.
  bool is_complete = true;      // A test without a result is no longer part of the place's runs.
  bool is_planned = true;
};

// The nights of one place, added one by one, oldest first.
class PlaceHistory {
 public:
  explicit PlaceHistory(const compare::CompareContext& background) : background_(background) {}

  // `good` has the paths of records marked as baselines.
  PlaceState add(PlaceRuns night, const std::set<std::string>& good);
  // For a night without a run.
  enum class Absence {
    Missing,    // It is planned.
    NotNeeded,  // It is planned, and another machine has run its tasks.
    Unplanned,
  };
  PlaceState without_run(const std::string& night, Absence absence);
  const Environment& environment() const { return environment_; }  // Of its newest run.
  bool has_open() const;                                           // A test is red, flaky or edited.
  bool was_planned() const { return was_planned_; }

  // For the state that travels: all that the next night needs of the nights before.
  Json to_json() const;
  // Throws std::exception for anything that to_json() does not return.
  static PlaceHistory from_json(const Json& json, const compare::CompareContext& background);

 private:
  enum class Mark {
    Fine,
    Red,
    Split,  // Red in some runs of the night.
    Unconfirmed,
  };
  static bool is_red(Mark mark) { return mark == Mark::Red || mark == Mark::Split; }
  struct Point {
    std::string night;
    Mark mark = Mark::Fine;
    bool operator==(const Point&) const = default;
  };
  struct Timing {
    std::string code;  // Of the case: times of edited code are not comparable.
    std::map<int, Durations> by_width;
  };
  struct Window {
    std::vector<std::string> red_nights;
    size_t nights = 0, streaks = 0;
    bool has_unconfirmed = false;
    bool is_flaky() const { return has_unconfirmed || streaks > 1; }
  };
  // What was red or flaky with other code.
  struct Unresolved {
    std::string why, night;  // Its word, and since which night.
    std::string code;        // With which it was red.
    std::string since, fingerprint, seen;
    TestChange change;
  };
  struct Test {
    std::string code;
    std::string baseline;                // The path of the baseline's record; "" for a race.
    std::set<std::string> pool, unseen;  // For a race: its baseline's records; later ones without it.
    bool was_absent = false;             // Not applicable in its first baseline.
    std::vector<Point> points;           // The last nights with a result, one more than the window has.
    std::string since;                   // The first night of its newest red streak.
    std::string fine_night, driver, runtime;
    Timing timing;
    TestChange change;
    std::string fingerprint, seen;
    std::vector<compare::UpstreamChange> upstream;
    std::string not_judged_since;  // "" if it was judged on the newest night.
    std::string accepted_result;   // Of a record marked as a baseline, if it is wrong without a comparison.
    std::optional<Unresolved> unresolved;

    bool has_baseline() const { return !baseline.empty() || !pool.empty(); }
    bool is_red() const { return !points.empty() && PlaceHistory::is_red(points.back().mark); }
  };
  struct Tonight;  // State while a night is added.

  static Window window_of(const std::vector<Point>& points, size_t end);
  static bool was_open(const Test& test, size_t end);
  static void add_point(Test& test, const std::string& night, Mark mark);

  void find_results(Tonight& tonight) const;
  void compare_with_baselines(Tonight& tonight) const;
  void compare_each_run(Tonight& tonight) const;
  void judge(const std::string& test, Tonight& tonight);
  void judge_absent(const std::string& name, Tonight& tonight);
  void add_not_judged(const std::string& name, const std::string& reason, Tonight& tonight);
  void take_clear(const compare::Seen& seen, Test& test, Tonight& tonight);
  static std::string why_not_comparable(const compare::Seen& seen, const Test& test, const Tonight& tonight);
  void compare_tests(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight);
  static TestChange change_of(const compare::Pair& pair, const Test& test, const Tonight& tonight);
  void take_unknown(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight);
  void take_change(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const;
  void take_red(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const;
  void take_broken(const compare::Seen& seen, Test& test, Tonight& tonight) const;
  void mark_red(const compare::Seen& seen, const std::string& cause, Test& test, Tonight& tonight) const;
  void take_fine(const compare::Seen& seen, Test& test, Tonight& tonight) const;
  void start(const compare::Seen& seen, Test& test, Tonight& tonight) const;
  void accept(Tonight& tonight, const std::set<std::string>& good);
  void add_times(Tonight& tonight);
  void add_state(const std::string& name, Test& test, Tonight& tonight) const;
  TestState state_of(const std::string& name, const Test& test, NightState state, size_t end) const;
  static TestState state_of(const std::string& name, const Unresolved& unresolved, NightState state);
  void forget_all_but_baselines(Tonight& tonight);

  const compare::CompareContext& background_;
  compare::Side runs_;  // Newest first; of earlier nights, only the results that are a baseline.
  std::map<std::string, Test> tests_;
  Timing total_;
  Environment environment_;
  std::string absent_since_;  // The first night without a run, in a row.
  bool was_planned_ = false;  // On any night.
};

}  // namespace recapture::nightly
