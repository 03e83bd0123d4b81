#include "harness/nightly/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/case/events.h"
#include "harness/case/source_hash.h"
#include "harness/nightly/agreement.h"
#include "harness/store/result_store.h"
#include "harness/words/observation.h"

namespace recapture::nightly {
namespace {

constexpr std::array<std::string_view, 9> kWords = {
    "new", "still", "flaky", "not judged", "edited", "no longer planned", "healed", "steady", "accepted"};

constexpr const char* kNotComparable = "not to be compared with its baseline";
constexpr const char* kNotPartOfRun = "not part of this run";

// Races and tests with a rate are not compared: their times vary at random.
bool has_steady_time(const Record& record, const TestVerdict& row) {
  const auto info = record.cases.find(row.case_id);
  return has_evidence(row) && info != record.cases.end() && info->second.nature != Nature::Race &&
         !record.find(row.test)->has_rate();
}

// Removes what differs between machines and between releases.
std::string normalised(const std::string& seen) {
  static const RE2 kPlace(R"(0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\d+\.\d+\.\d+\S*|\w+\.\w+:\d+)");
  return replace_all(escape_control(seen), kPlace, "*");
}

std::string text_seen(const compare::Seen& seen) {
  const std::string text = seen.test().seen();
  return text.empty() ? render_observed(*seen.row) : text;
}

std::string code_of(const compare::Seen& seen) { return recapture::code_of(seen.run->record, seen.row->test); }

std::string line_of(const TestVerdict& row) {
  return fmt::format("{}: {}: {}", row.test, to_string(row.verdict), truncated(render_observed(row)));
}

// Changed versions of driver and libraries.
std::vector<std::string> moves_between(const Environment& before, const Environment& now) {
  constexpr std::array<std::pair<const char*, const char*>, 10> kParts = {{{"release", "LibTorch"},
                                                                           {"driver", "driver"},
                                                                           {"cuda_driver", "CUDA of the driver"},
                                                                           {"cuda_runtime", "CUDA runtime"},
                                                                           {"libtorch_git", "LibTorch's revision"},
                                                                           {"cudnn", "cuDNN"},
                                                                           {"nccl", "NCCL"},
                                                                           {"nvrtc", "NVRTC"},
                                                                           {"python", "Python"},
                                                                           {"system", "system"}}};
  const auto version = [](const Environment& environment, const char* key) {
    const std::string text = escape_control(text_at(environment.json(), key));
    return text.empty() ? "not on record" : text;
  };
  std::vector<std::string> moves;
  for (const auto& [key, name] : kParts) {
    if (text_at(before.json(), key) == text_at(now.json(), key)) continue;
    moves.push_back(fmt::format("{} {} -> {}", name, version(before, key), version(now, key)));
  }
  return moves;
}

void describe_place(const Environment& environment, PlaceState& state) {
  state.environment = environment;
  state.release = escape_control(environment.release.name());
  state.gpu = escape_control(environment.machine.gpu);
  state.driver = escape_control(environment.machine.driver);
  state.runtime = escape_control(environment.machine.runtime);
  state.name =
      fmt::format("LibTorch {} {}{}", state.release, state.gpu.empty() ? "" : "on ",
                  label(environment.machine, {.variables = true, .overrides = true, .no_gpu = "without a GPU"}));
}

// Of a test that has no red night.
std::string flaky_fingerprint(const std::string& test) {
  return hash_of(fmt::format("{}|flaky|{}", case_of(test), name_of(test)));
}

// The run with only some of its results.
JudgedRun with_results(JudgedRun run, const std::set<std::string>& tests) {
  JudgedRun few;
  few.record.path = run.record.path;
  few.record.environment = run.record.environment;
  for (const TestVerdict& row : run.rows) {
    if (tests.count(row.test) == 0) continue;
    few.rows.push_back(row);
    few.record.add(*run.record.find(row.test));
    const auto info = run.record.cases.find(row.case_id);
    if (info != run.record.cases.end()) few.record.cases.insert(*info);
  }
  return few;
}

}  // namespace

std::string_view to_string(NightState state) { return kWords.at(static_cast<size_t>(state)); }
bool is_closed(NightState state) { return state >= NightState::Healed; }
bool is_open(NightState state) { return state < NightState::NotJudged; }

struct PlaceHistory::Tonight {
  std::string night;
  size_t runs = 0;  // How many of runs_ are tonight's; they come first.
  bool is_complete = true;
  std::map<std::string, compare::Seen> seen;  // The newest clear result of each test, else the newest.
  std::map<std::string, compare::Pair> pairs;
  std::map<std::string, Agreement> disagreements;  // Of tests on which tonight's runs disagree.
  std::set<std::string> has_result;                // Tests with a point for this night.
  std::set<std::string> closed;                    // Tests whose state for this night is already reported.
  std::set<std::string> unjudged;
  PlaceState state;
};

PlaceHistory::Window PlaceHistory::window_of(const std::vector<Point>& points, size_t end) {
  Window window;
  const size_t begin = end > kWindow ? end - kWindow : 0;
  window.nights = end - begin;
  for (size_t i = begin; i < end; ++i) {
    const Mark mark = points[i].mark;
    if (mark == Mark::Fine) continue;
    window.red_nights.push_back(points[i].night);
    window.has_unconfirmed = window.has_unconfirmed || mark == Mark::Unconfirmed || mark == Mark::Split;
    if (is_red(mark) && (i == begin || !is_red(points[i - 1].mark))) ++window.streaks;
  }
  return window;
}

bool PlaceHistory::was_open(const Test& test, size_t end) {
  return end > 0 && (is_red(test.points[end - 1].mark) || window_of(test.points, end).is_flaky());
}

bool PlaceHistory::has_open() const {
  return std::ranges::any_of(tests_, [](const auto& each) {
    return each.second.unresolved || was_open(each.second, each.second.points.size());
  });
}

// Without the nights that no window reaches.
void PlaceHistory::add_point(Test& test, const std::string& night, Mark mark) {
  if (is_red(mark) && !test.is_red()) test.since = night;
  test.points.push_back({night, mark});
  if (test.points.size() > kWindow + 1) test.points.erase(test.points.begin());
}

PlaceState PlaceHistory::add(PlaceRuns night, const std::set<std::string>& good) {
  Tonight tonight;
  tonight.night = night.night;
  tonight.runs = night.runs.size();
  tonight.is_complete = night.is_complete;
  tonight.state.is_first = environment_.empty();
  const Environment environment = night.runs.front().record.environment;
  if (!tonight.state.is_first) tonight.state.moves = moves_between(environment_, environment);
  environment_ = environment;
  absent_since_.clear();
  was_planned_ = was_planned_ || night.is_planned;
  describe_place(environment_, tonight.state);
  runs_.runs.insert(runs_.runs.begin(), std::make_move_iterator(night.runs.begin()),
                    std::make_move_iterator(night.runs.end()));
  find_results(tonight);
  compare_with_baselines(tonight);
  compare_each_run(tonight);
  std::set<std::string> names;
  for (const auto& [name, test] : tests_) names.insert(name);
  for (const auto& [name, seen] : tonight.seen) names.insert(name);
  for (const std::string& name : names) judge(name, tonight);
  accept(tonight, good);
  add_times(tonight);
  for (auto& [name, test] : tests_) add_state(name, test, tonight);
  forget_all_but_baselines(tonight);
  return std::move(tonight.state);
}

void PlaceHistory::find_results(Tonight& tonight) const {
  const ResultStore store(std::span(runs_.runs).first(tonight.runs));
  for (const std::string& test : store.tests()) {
    const TestRuns runs = store.of(test);
    const TestRun& newest = runs.runs.empty() ? runs.without.front() : runs.runs.front();
    tonight.seen.emplace(test, compare::Seen{newest.run, newest.row});
  }
}

// Both sides are the same runs; for each test other results of them count.
void PlaceHistory::compare_with_baselines(Tonight& tonight) const {
  const JudgedRun* const earlier = runs_.runs.data() + tonight.runs;
  const auto is_baseline = [&](const JudgedRun& run, const TestVerdict& row) {
    const auto test = tests_.find(row.test);
    if (&run < earlier || test == tests_.end()) return false;
    return test->second.baseline == run.record.path || test->second.pool.count(run.record.path) != 0;
  };
  const auto is_result = [&](const JudgedRun& run, const TestVerdict& row) {
    const auto found = tonight.seen.find(row.test);
    if (found == tonight.seen.end()) return false;
    const compare::Seen& newest = found->second;
    const bool is_race = newest.row->ran && newest.has_rate;
    if (&run < earlier) return has_evidence(row) && (&row == newest.row || is_race);
    const auto test = tests_.find(row.test);  // Only several nights can show that a race is gone.
    return newest.row->result == Result::Unseen && test != tests_.end() &&
           test->second.unseen.count(run.record.path) != 0;
  };
  for (compare::Pair& pair :
       compare::pairs_of(compare::Results(runs_, is_baseline), compare::Results(runs_, is_result), background_)) {
    const std::string test = pair.compared.test;
    tonight.pairs.emplace(test, std::move(pair));
  }
}

// One run counts in compare_with_baselines(). A run that is red where that one is not takes its place.
void PlaceHistory::compare_each_run(Tonight& tonight) const {
  if (tonight.runs < 2) return;
  const JudgedRun* const earlier = runs_.runs.data() + tonight.runs;
  const auto is_baseline = [&](const JudgedRun& run, const TestVerdict& row) {
    const auto test = tests_.find(row.test);
    return &run >= earlier && test != tests_.end() && test->second.baseline == run.record.path;
  };
  const compare::Results baselines(runs_, is_baseline);
  const ResultStore store(std::span(runs_.runs).first(tonight.runs));
  std::map<std::string, std::vector<RunOutcome>> outcomes;
  for (size_t i = 0; i < tonight.runs; ++i) {
    const JudgedRun& tonights = runs_.runs[i];
    const auto is_result = [&](const JudgedRun& run, const TestVerdict& row) {
      return &run == &tonights && has_evidence(row);
    };
    std::map<std::string, compare::Pair> pairs;
    for (compare::Pair& pair : compare::pairs_of(baselines, compare::Results(runs_, is_result), background_)) {
      const std::string test = pair.compared.test;
      pairs.emplace(test, std::move(pair));
    }
    for (const TestVerdict& row : tonights.rows) {
      RunOutcome outcome;
      outcome.seen = compare::Seen(&tonights, &row);
      outcome.is_red = is_wrong_by_itself(row);
      if (!counts_for_agreement(tonights, row) || outcome.seen.has_rate) continue;
      if (const auto pair = pairs.find(row.test); pair != pairs.end()) {
        outcome.has_pair = true;
        outcome.is_red = outcome.is_red || compare::is_regression(pair->second.compared.consequence);
        outcome.pair = std::move(pair->second);
      }
      outcomes[row.test].push_back(std::move(outcome));
    }
  }
  for (auto& [name, runs] : outcomes) {
    Agreement agreement = agreement_of(runs, store.of(name));
    if (agreement.is_split) {
      const auto red = std::ranges::find_if(runs, [](const RunOutcome& outcome) { return outcome.is_red; });
      tonight.seen[name] = red->seen;
      tonight.pairs.erase(name);
      if (red->has_pair) tonight.pairs.emplace(name, std::move(red->pair));
    }
    if (!agreement.words.empty()) tonight.disagreements.emplace(name, std::move(agreement));
  }
}

void PlaceHistory::add_not_judged(const std::string& name, const std::string& reason, Tonight& tonight) {
  Test& test = tests_[name];
  if (test.not_judged_since.empty()) test.not_judged_since = tonight.night;
  tonight.state.not_judged.push_back({name, reason, test.not_judged_since, !test.has_baseline(), ""});
  tonight.unjudged.insert(name);
}

// A test that no run of tonight planned. One that the tree has lost as well is reported once, unless it was open.
void PlaceHistory::judge_absent(const std::string& name, Tonight& tonight) {
  Test& test = tests_.at(name);
  const size_t end = test.points.size();
  const CatalogueCase* known = background_.find(case_of(name));
  const bool is_in_tree = background_.catalogue.empty() ||
                          (known != nullptr && std::ranges::any_of(known->tests, [&](const CatalogueTest& each) {
                             return each.name == name_of(name);
                           }));
  const bool is_open_now = was_open(test, end) || test.unresolved;
  add_not_judged(name, is_in_tree ? kNotPartOfRun : "not part of this run or of the tree any more", tonight);
  if (!tonight.is_complete) return;
  if (was_open(test, end)) {
    tonight.state.tests.push_back(state_of(name, test, NightState::Unplanned, end));
    tonight.state.tests.back().unresolved = test.not_judged_since;
    tonight.closed.insert(name);
  }
  if (!is_in_tree && !is_open_now) tests_.erase(name);
}

void PlaceHistory::judge(const std::string& name, Tonight& tonight) {
  const auto found = tonight.seen.find(name);
  if (found == tonight.seen.end()) {
    judge_absent(name, tonight);
    return;
  }
  const compare::Seen& seen = found->second;
  const TestVerdict& row = *seen.row;
  if (row.kind == Kind::Fix && row.result == Result::Holds) {
    const CatalogueCase* one = background_.find(row.case_id);
    for (const CatalogueTest& test : one == nullptr ? std::vector<CatalogueTest>() : one->tests) {
      if (test.name == row.name && !test.fix.empty()) tonight.state.remedies[row.case_id].push_back(test.fix);
    }
  }
  const auto disagreement = tonight.disagreements.find(name);
  if (disagreement != tonight.disagreements.end() && disagreement->second.is_unclear) {
    add_point(tests_[name], tonight.night, Mark::Unconfirmed);
    tonight.has_result.insert(name);
    add_not_judged(name, disagreement->second.words, tonight);
    return;
  }
  if (has_evidence(row)) {
    ++tonight.state.judged;
    take_clear(seen, tests_[name], tonight);
    return;
  }
  const std::string reason(to_string(row.verdict));
  const auto known = tests_.find(name);
  if (known == tests_.end() || !known->second.has_baseline()) {
    if (severity_of(row.verdict) == Severity::Error) add_not_judged(name, reason, tonight);
    return;
  }
  const bool is_new_code = row.ran && code_of(seen) != known->second.code;
  if (is_unconfirmed(seen.run->record, row) && !is_new_code) {
    add_point(known->second, tonight.night, Mark::Unconfirmed);
    tonight.has_result.insert(name);
    add_not_judged(name, "a repetition gave another result", tonight);
    return;
  }
  add_not_judged(name, reason, tonight);
}

void PlaceHistory::take_clear(const compare::Seen& seen, Test& test, Tonight& tonight) {
  const std::string& name = seen.row->test;
  const bool is_known = test.has_baseline();
  const std::string reason = why_not_comparable(seen, test, tonight);
  if (reason.empty()) {
    const auto pair = tonight.pairs.find(name);
    if (pair != tonight.pairs.end()) {
      compare_tests(seen, pair->second, test, tonight);
    } else if (test.was_absent && seen.state() == compare::State::Absent) {
      take_fine(seen, test, tonight);
    } else {  // A comparison leaves out an operator that one side lacks, and a test that its case no longer has.
      add_not_judged(name, kNotComparable, tonight);
    }
    return;
  }
  std::optional<Unresolved> unresolved = std::move(test.unresolved);
  if (is_known && was_open(test, test.points.size()) && !unresolved) {
    const bool is_edited = test.code != code_of(seen);
    unresolved = {
        is_edited ? "edited" : reason, tonight.night, test.code, test.since, test.fingerprint, test.seen, test.change};
    if (unresolved->fingerprint.empty()) unresolved->fingerprint = flaky_fingerprint(name);
  }
  if (!tonight.state.is_first) tonight.state.new_baseline[reason].push_back(name);
  const bool is_wrong = is_wrong_by_itself(*seen.row);
  if (!is_wrong && severity_of(seen.row->verdict) == Severity::Fail)
    tonight.state.unexpected.push_back(line_of(*seen.row));
  start(seen, test, tonight);
  test.unresolved = std::move(unresolved);
  if (is_wrong) {
    test.points.clear();
    take_broken(seen, test, tonight);
  }
}

// Why a clear result becomes a new baseline without comparison; "" if it is compared.
std::string PlaceHistory::why_not_comparable(const compare::Seen& seen, const Test& test, const Tonight& tonight) {
  if (!test.has_baseline()) return "no clear result before";
  if (test.code != code_of(seen)) return "the code of the case has changed";
  if (test.pool.empty() && seen.has_rate) return "it has a rate, and had none";
  const auto pair = tonight.pairs.find(seen.row->test);
  const bool has_pair = pair != tonight.pairs.end() && pair->second.from.row != nullptr;
  const bool was_absent = has_pair ? pair->second.from.state() == compare::State::Absent &&
                                         pair->second.compared.consequence == compare::Consequence::Unknown
                                   : test.was_absent;
  return was_absent && seen.state() != compare::State::Absent ? "it was not applicable before" : "";
}

void PlaceHistory::start(const compare::Seen& seen, Test& test, Tonight& tonight) const {
  test = Test();
  test.code = code_of(seen);
  test.was_absent = seen.state() == compare::State::Absent;
  if (seen.has_rate) {
    for (size_t i = 0; i < tonight.runs; ++i) test.pool.insert(runs_.runs[i].record.path);
  } else {
    test.baseline = seen.run->record.path;
  }
  take_fine(seen, test, tonight);
}

void PlaceHistory::take_fine(const compare::Seen& seen, Test& test, Tonight& tonight) const {
  add_point(test, tonight.night, Mark::Fine);
  test.fine_night = tonight.night;
  test.driver = seen.run->record.env("driver");
  test.runtime = seen.run->record.env("cuda_runtime");
  tonight.has_result.insert(seen.row->test);
}

void PlaceHistory::compare_tests(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) {
  const compare::Consequence consequence = pair.compared.consequence;
  if (consequence == compare::Consequence::Unknown) {
    take_unknown(seen, pair, test, tonight);
  } else if (compare::is_regression(consequence)) {
    take_red(seen, pair, test, tonight);
  } else if (is_wrong_by_itself(*seen.row) && test.accepted_result != to_string(seen.row->result)) {
    take_broken(seen, test, tonight);
  } else if (consequence != compare::Consequence::Same) {
    take_change(seen, pair, test, tonight);
  } else {
    if (!test.pool.empty()) {
      test.pool.merge(test.unseen);
      test.unseen.clear();
      test.pool.insert(seen.run->record.path);
    }
    take_fine(seen, test, tonight);
  }
}

// Most nights do not see a race, which is no question. A case at fault has no result.
void PlaceHistory::take_unknown(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) {
  const bool has_both = pair.from.row != nullptr && pair.to.row != nullptr;
  const bool is_absent = seen.state() == compare::State::Absent;
  if (is_absent && has_both && pair.from.state() == compare::State::Absent) {
    take_fine(seen, test, tonight);
  } else if (!test.pool.empty() && seen.row->result == Result::Unseen) {
    (test.is_red() ? test.unseen : test.pool).insert(seen.run->record.path);
  } else if (is_absent || pair.compared.ran) {
    add_not_judged(seen.row->test, kNotComparable, tonight);
  }
}

// A harmless change becomes the new baseline.
void PlaceHistory::take_change(const compare::Seen& seen, const compare::Pair& pair, Test& test,
                               Tonight& tonight) const {
  tonight.state.changes.push_back(change_of(pair, test, tonight));
  test.was_absent = false;
  const std::string& path = seen.run->record.path;
  if (test.pool.empty()) {
    test.baseline = path;
  } else {
    test.pool = std::move(test.unseen);
    test.unseen.clear();
    test.pool.insert(path);
  }
  take_fine(seen, test, tonight);
}

TestChange PlaceHistory::change_of(const compare::Pair& pair, const Test& test, const Tonight& tonight) {
  const compare::ComparedTest& compared = pair.compared;
  TestChange change;
  change.test = compared.test;
  change.consequence = compared.consequence;
  change.change = *compared.change;
  change.from = test.fine_night;
  change.to = tonight.night;
  return change;
}

void PlaceHistory::take_red(const compare::Seen& seen, const compare::Pair& pair, Test& test, Tonight& tonight) const {
  test.change = change_of(pair, test, tonight);
  test.upstream = compare::upstream_of(pair, background_);
  mark_red(seen, test.change.what(), test, tonight);
}

// What needs no earlier night: a Control or a Fix fails.
void PlaceHistory::take_broken(const compare::Seen& seen, Test& test, Tonight& tonight) const {
  const std::string what(to_string(seen.row->kind == Kind::Control ? Verdict::ControlFails : Verdict::FixFails));
  test.change = TestChange();
  test.change.test = seen.row->test;
  test.change.verdict = what;
  test.change.observed = truncated(render_observed(*seen.row));
  test.upstream.clear();
  mark_red(seen, what, test, tonight);
}

void PlaceHistory::mark_red(const compare::Seen& seen, const std::string& cause, Test& test, Tonight& tonight) const {
  const std::string& name = seen.row->test;
  const bool is_first_of_streak = !test.is_red();
  test.unseen.clear();
  test.seen = text_seen(seen);
  if (is_first_of_streak) {
    test.fingerprint = test.unresolved ? test.unresolved->fingerprint  // The same issue, with other code.
                                       : hash_of(fmt::format("{}|{}|{}|{}", seen.row->case_id, cause,
                                                             to_string(seen.row->result), normalised(test.seen)));
  }
  const auto disagreement = tonight.disagreements.find(name);
  const bool is_split = disagreement != tonight.disagreements.end() && disagreement->second.is_split;
  add_point(test, tonight.night, is_split ? Mark::Split : Mark::Red);
  tonight.has_result.insert(name);
}

// The results of a record marked as a baseline become the new baseline; earlier ones are dropped.
void PlaceHistory::accept(Tonight& tonight, const std::set<std::string>& good) {
  for (const auto& [name, seen] : tonight.seen) {
    if (good.count(seen.run->record.path) == 0 || !has_evidence(*seen.row)) continue;
    Test& test = tests_[name];
    const size_t end = test.points.size();
    const size_t before = end - tonight.has_result.count(name);
    if (was_open(test, before) || was_open(test, end)) {
      tonight.state.tests.push_back(state_of(name, test, NightState::Accepted, was_open(test, end) ? end : before));
      tonight.closed.insert(name);
    }
    if (test.unresolved && tonight.closed.insert(name).second) {
      tonight.state.tests.push_back(state_of(name, *test.unresolved, NightState::Accepted));
    }
    start(seen, test, tonight);
    if (is_wrong_by_itself(*seen.row)) test.accepted_result = to_string(seen.row->result);
  }
}

void PlaceHistory::add_times(Tonight& tonight) {
  constexpr size_t kSlowest = 10;
  PlaceState& state = tonight.state;
  std::vector<TestTime> times;
  for (size_t i = tonight.runs; i > 0; --i) {  // The oldest first.
    const JudgedRun& run = runs_.runs[i - 1];
    double total = 0;
    for (const TestVerdict& row : run.rows) {
      if (!row.ran) continue;
      total += row.seconds;
      const auto seen = tonight.seen.find(row.test);
      const bool is_newest = seen != tonight.seen.end() && seen->second.run == &run;
      TestTime time{row.test, row.seconds, width_of(run.record, row.case_id), {}};
      if (time.width > 0 && has_steady_time(run.record, row)) {
        const std::string code = recapture::code_of(run.record, row.test);
        Timing& timing = tests_[row.test].timing;
        if (timing.code != code) timing = {code, {}};
        time.median = timing.by_width[time.width].add(row.seconds);
      }
      if (!is_newest) continue;
      state.seconds += row.seconds;
      if (time.median) state.slower.push_back(time);
      times.push_back(std::move(time));
    }
    if (!run.record.is_complete()) continue;
    TestTime all{"all tests together", total, width_of(run.record, ""), {}};
    if (all.width > 0) all.median = total_.by_width[all.width].add(total);
    if (i == 1 && all.median) state.slower.push_back(all);
  }
  state.width = width_of(runs_.runs.front().record, "");
  std::ranges::stable_sort(times, [](const TestTime& a, const TestTime& b) { return a.seconds > b.seconds; });
  times.resize(std::min(times.size(), kSlowest));
  state.slowest = std::move(times);
}

TestState PlaceHistory::state_of(const std::string& name, const Test& test, NightState state, size_t end) const {
  const Window window = window_of(test.points, end);
  TestState result;
  result.state = state;
  result.change = test.change;
  result.change.test = name;
  result.since = test.since;
  result.red_nights = window.red_nights;
  result.has_unconfirmed = window.has_unconfirmed;
  result.window = window.nights;
  result.fingerprint = test.fingerprint.empty() ? flaky_fingerprint(name) : test.fingerprint;
  result.seen = test.seen;
  result.driver = test.driver;
  result.runtime = test.runtime;
  result.upstream = test.upstream;
  return result;
}

TestState PlaceHistory::state_of(const std::string& name, const Unresolved& unresolved, NightState state) {
  TestState result;
  result.state = state;
  result.change = unresolved.change;
  result.change.test = name;
  result.since = unresolved.since;
  result.unresolved = unresolved.night;
  result.fingerprint = unresolved.fingerprint;
  result.seen = unresolved.seen;
  return result;
}

void PlaceHistory::add_state(const std::string& name, Test& test, Tonight& tonight) const {
  if (tonight.unjudged.count(name) == 0) test.not_judged_since.clear();
  if (tonight.closed.count(name) != 0) return;
  const size_t end = test.points.size();
  const auto seen = tonight.seen.find(name);
  const auto add = [&](NightState state, size_t until) {
    tonight.state.tests.push_back(state_of(name, test, state, until));
    if (seen != tonight.seen.end() && seen->second.row->ran) {
      tonight.state.tests.back().seconds = seen->second.row->seconds;
    }
    const auto disagreement = tonight.disagreements.find(name);
    if (disagreement != tonight.disagreements.end()) tonight.state.tests.back().runs = disagreement->second.words;
  };
  const size_t before = tonight.state.tests.size();
  const bool was_red = end > 1 && is_red(test.points[end - 2].mark);
  if (tonight.has_result.count(name) == 0) {
    if (was_open(test, end)) add(NightState::NotJudged, end);
  } else if (window_of(test.points, end).is_flaky()) {
    add(NightState::Flaky, end);
  } else if (test.is_red()) {
    add(was_red ? NightState::Still : NightState::New, end);
  } else if (was_red) {
    add(NightState::Healed, end - 1);
  } else if (was_open(test, end - 1)) {
    add(NightState::Steady, end - 1);
  }
  const bool has_state = tonight.state.tests.size() > before;
  if (has_state && tonight.has_result.count(name) != 0 && test.is_red()) tonight.state.tests.back().is_red = true;
  if (!test.unresolved) return;
  // Right with the code with which it was red, or red and right with the new one.
  const bool is_right = seen != tonight.seen.end() && has_evidence(*seen->second.row) &&
                        severity_of(seen->second.row->verdict) == Severity::Pass;
  const bool has_healed = has_state && is_closed(tonight.state.tests.back().state);
  if (!has_state && is_right && code_of(seen->second) == test.unresolved->code) {
    tonight.state.tests.push_back(state_of(name, *test.unresolved, NightState::Healed));
    test.unresolved.reset();
  } else if (has_healed) {
    test.unresolved.reset();
  } else if (has_state) {
    tonight.state.tests.back().unresolved = test.unresolved->night;
  } else {
    tonight.state.tests.push_back(state_of(name, *test.unresolved, NightState::Edited));
  }
}

PlaceState PlaceHistory::without_run(const std::string& night, Absence absence) {
  PlaceState state;
  describe_place(environment_, state);
  state.is_here = false;
  state.is_needed = absence == Absence::Missing;
  state.is_planned = absence != Absence::Unplanned;
  if (absent_since_.empty()) absent_since_ = night;
  state.absent_since = absent_since_;
  for (auto& [name, test] : tests_) {
    const size_t end = test.points.size();
    const bool is_open_now = was_open(test, end);
    if (test.has_baseline() && (state.is_needed || is_open_now)) {
      if (test.not_judged_since.empty()) test.not_judged_since = night;
      state.not_judged.push_back({name, "no run of it", test.not_judged_since, false, ""});
    }
    const bool is_unplanned = absence == Absence::Unplanned;
    if (is_open_now) {
      state.tests.push_back(state_of(name, test, is_unplanned ? NightState::Unplanned : NightState::NotJudged, end));
      if (is_unplanned) state.tests.back().unresolved = absent_since_;
    } else if (test.unresolved) {
      state.tests.push_back(state_of(name, *test.unresolved, NightState::Edited));
    }
  }
  return state;
}

// Hundreds of complete nights would not fit into memory.
void PlaceHistory::forget_all_but_baselines(Tonight& tonight) {
  std::vector<JudgedRun> kept;
  std::map<std::string, size_t> pooled;  // Runs of a race, newest first.
  for (size_t i = 0; i < runs_.runs.size(); ++i) {
    JudgedRun& run = runs_.runs[i];
    std::set<std::string> used;
    for (const TestVerdict& row : run.rows) {
      const auto found = tests_.find(row.test);
      if (found == tests_.end() || !has_evidence(row)) continue;
      Test& test = found->second;
      const std::string& path = run.record.path;
      if (test.pool.count(path) != 0 && ++pooled[row.test] > kMostRaceRuns) test.pool.erase(path);
      if (test.baseline == path || test.pool.count(path) + test.unseen.count(path) != 0) used.insert(row.test);
    }
    if (used.empty()) continue;
    kept.push_back(i < tonight.runs || used.size() < run.rows.size() ? with_results(std::move(run), used)
                                                                     : std::move(run));
  }
  runs_.runs = std::move(kept);
}

}  // namespace recapture::nightly
