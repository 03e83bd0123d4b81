// What each test of a place (a release on a kind of GPU) is on a night, in the light of the nights before it: red since
// when, flaky, or healed. A state and not an event: a test that is red tonight is red in every report until it heals.
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

// So many nights with a result of a test decide whether it is flaky.
inline constexpr size_t kWindow = 7;

enum class NightState {
  New,        // Red tonight, and not on the last night with a clear result.
  Still,      // Red tonight and on that night.
  Flaky,      // Red in two separate streaks of the window, or a repetition within a night gave another result.
  NotJudged,  // Was red or flaky, and has no clear result tonight.
  Healed,     // Was red, and is not tonight.
  Steady,     // Was flaky, and is neither that nor red tonight.
  Restarted,  // Was red or flaky; tonight's result cannot be compared with its baseline, and is a new one.
  Accepted,   // Was red or flaky; tonight's record is marked, and is its new baseline.
  Removed,    // Was red or flaky, and is not part of the run any more.
};
std::string_view to_string(NightState state);
bool is_closed(NightState state);  // Healed and all after it.

// A change of a test from its baseline.
struct TestChange {
  std::string test;
  compare::Consequence consequence = compare::Consequence::Same;
  std::string was, is, sentence;  // As of ComparedTest.
};

struct TestState {
  NightState state = NightState::New;
  bool is_red = false;                  // Tonight.
  TestChange change;                    // Of the newest red night; empty for a test that was never red.
  std::string since;                    // The first night of its newest red streak.
  std::vector<std::string> red_nights;  // Of the window; for a flaky test also those whose repetition differed.
  bool has_unconfirmed = false;         // A repetition differed on one of them.
  size_t window = 0;                    // Nights with a result in it, at most kWindow.
  std::string cause;                    // What the fingerprint of its issue is made of: the same on all nights.
  std::string seen;                     // The true text of the newest red night.
  std::string driver, runtime;          // Of the last night on which it was not red.
  std::vector<compare::UpstreamChange> upstream;
  std::optional<double> seconds;  // Tonight.
};

// What a test took, and what it used to take where that is news.
struct TestTime {
  std::string test;
  double seconds = 0;
  int width = 0;  // How many tests ran at once; 0 where it is not on record.
  std::optional<double> median;
};

// Tests with one reason.
using TestsByReason = std::map<std::string, std::vector<std::string>>;

struct PlaceState {
  std::string release, gpu;  // "" without a GPU.
  std::string name;          // "LibTorch 2.11.0 on NVIDIA H200"
  std::string driver, runtime;
  Environment environment;              // Of its newest run.
  bool is_here = true;                  // It has a run of this night.
  bool is_first = false;                // It has none of an earlier night: this is its baseline.
  size_t judged = 0;                    // Tests with a clear result.
  std::vector<std::string> moves;       // "driver 580 -> 590"
  std::vector<TestState> tests;         // Those that have a state.
  std::vector<TestChange> changes;      // What does not hurt.
  TestsByReason not_judged;             // Had a clear result on an earlier night, and have none.
  TestsByReason never_judged;           // Could not be judged on any night.
  TestsByReason new_baseline;           // This night is their baseline, and it is not the first of the place.
  std::vector<std::string> unexpected;  // Not as documented or expected in a baseline of this night.
  double seconds = 0;                   // Of all tests together.
  int width = 0;                        // How many ran at once; 0 where it is not on record.
  std::vector<TestTime> slowest;        // The ten that took longest.
  std::vector<TestTime> slower;         // Each with its median.
  std::map<std::string, std::vector<std::string>> remedies;  // By case: the fixes that hold, in a sentence each.
};

// What a night has of one place.
struct PlaceRuns {
  std::string night;
  std::vector<JudgedRun> runs;  // The newest first.
  bool is_complete = true;      // What is not part of them is not part of the place's runs any more.
};

// The nights of one place, added one by one from the oldest on.
class PlaceHistory {
 public:
  explicit PlaceHistory(const compare::CompareContext& background) : background_(background) {}

  // `good` has the paths of records that are marked as baselines.
  PlaceState add(PlaceRuns night, const std::set<std::string>& good);
  // Of a night without a run of it. Where it is not planned any more, its tests are Removed.
  PlaceState without_run(bool is_planned) const;
  const Environment& environment() const { return environment_; }  // Of its newest run.

 private:
  enum class Mark { Fine, Red, Unconfirmed };
  struct Point {
    std::string night;
    Mark mark = Mark::Fine;
  };
  struct Timing {
    std::string code;  // Of the case: an edited one takes its own time.
    std::map<int, Durations> by_width;
  };
  struct Window {
    std::vector<std::string> red_nights;
    size_t nights = 0, streaks = 0;
    bool has_unconfirmed = false;
    bool is_flaky() const { return has_unconfirmed || streaks > 1; }
  };
  struct Test {
    std::string code;
    std::string baseline;                // The path of the record with it; "" where it is a race.
    std::set<std::string> pool, unseen;  // Of a race: the records of its baseline; those since that did not show it.
    std::vector<Point> points;           // The nights with a result.
    std::string fine_night, driver, runtime;
    Timing timing;
    TestChange change;
    std::string cause, seen;
    std::vector<compare::UpstreamChange> upstream;

    bool has_baseline() const { return !baseline.empty() || !pool.empty(); }
    bool is_red() const { return !points.empty() && points.back().mark == Mark::Red; }
  };
  struct Tonight;  // What is true while a night is added.

  static Window window_of(const std::vector<Point>& points, size_t end);
  static bool was_open(const Test& test, size_t end);
  static std::string streak_start(const std::vector<Point>& points, size_t end);

  void find_results(Tonight& tonight) const;
  void compare_with_baselines(Tonight& tonight) const;
  void judge(const std::string& test, Tonight& tonight);
  void take_clear(const compare::Seen& seen, Test& test, Tonight& tonight);
  static std::string why_not_comparable(const compare::Seen& seen, const Test& test, const Tonight& tonight);
  void compare_tests(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight);
  static TestChange change_of(const compare::Pair& pair, const Test& test, const Tonight& tonight);
  void take_unknown(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const;
  void take_change(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const;
  void take_red(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const;
  void take_fine(const compare::Seen& seen, Test& test, Tonight& tonight) const;
  void start(const compare::Seen& seen, Test& test, Tonight& tonight) const;
  void accept(Tonight& tonight, const std::set<std::string>& good);
  void add_times(Tonight& tonight);
  void add_state(const std::string& name, const Test& test, Tonight& tonight) const;
  TestState state_of(const std::string& name, const Test& test, NightState state, size_t end) const;
  void forget_all_but_baselines(Tonight& tonight);

  const compare::CompareContext& background_;
  compare::Side runs_;  // The newest first; of earlier nights with those results alone that are a baseline.
  std::map<std::string, Test> tests_;
  Timing total_;
  Environment environment_;
};

}  // namespace recapture::nightly
