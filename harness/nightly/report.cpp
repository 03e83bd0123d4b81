#include "harness/nightly/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/compare/sides.h"
#include "harness/model/release.h"
#include "harness/record/baselines.h"

namespace recapture::nightly {
namespace {

bool is_same(const NightTask& a, const NightTask& b) {
  return Release(a.release).without_nightly_date() == Release(b.release).without_nightly_date() && a.gpu == b.gpu &&
         a.shard == b.shard && a.of == b.of;
}

template <class Tasks>
auto find_task(const Tasks& tasks, const NightTask& task) {
  return std::ranges::find_if(tasks, [&](const auto& each) {
    if constexpr (requires { each.task; }) {
      return is_same(each.task, task);
    } else {
      return is_same(each, task);
    }
  });
}

void add(const PlaceState& place, Tally& tally) {
  for (const TestState& test : place.tests) {
    const bool is_still = test.state == NightState::Still;
    tally.fresh += test.state == NightState::New ? 1 : 0;
    tally.still += is_still ? 1 : 0;
    tally.flaky += test.state == NightState::Flaky && !test.is_red ? 1 : 0;
    tally.flaky_red += test.state == NightState::Flaky && test.is_red ? 1 : 0;
    const bool is_healed = test.state == NightState::Healed || test.state == NightState::Steady;
    tally.healed += is_healed ? 1 : 0;
    tally.closed += is_closed(test.state) && !is_healed ? 1 : 0;
    const bool is_unclear = !is_open(test.state) && !is_closed(test.state);
    tally.open += is_unclear && test.accepted.empty() ? 1 : 0;
    if (is_still && (tally.oldest.empty() || test.since < tally.oldest)) tally.oldest = test.since;
  }
  tally.changes += place.changes.size();
  for (const NotJudged& test : place.not_judged) ++(test.accepted.empty() ? tally.not_judged : tally.accepted);
}

// The histories of all places, night by night.
class Layout {
 public:
  Layout(std::string folder, std::string baseline, const compare::CompareContext& background)
      : folder_(std::move(folder)), baseline_(std::move(baseline)), background_(background) {
    for (const std::string& path : baselines_below(folder_)) {
      good_.insert((std::filesystem::path(folder_) / path).string());
    }
  }

  // Goes on from the state of an earlier night.
  void restore(SavedState state) {
    known_ = std::move(state.nights);
    night_of_run_ = std::move(state.runs);
    missing_ = std::move(state.missing);
    places_ = std::move(state.places);
    has_baseline_ = true;
  }

  void add(const Night& night) {
    const std::set<MachineKind> before = std::move(present_);
    present_.clear();
    states_.clear();
    damaged_.clear();
    repeated_.clear();
    for (auto& [key, runs] : read_runs(night.path, background_)) {
      const auto [at, is_new] = places_.emplace(key, PlaceHistory(background_));
      if (is_new && !baseline_.empty()) add_baseline(key, at->second);
      const auto& environment = runs.front().record.environment;
      const bool is_complete = std::ranges::none_of(
          night.lacking, [&](const LackingTask& lacking) { return is_of_place(lacking.task, environment); });
      for (const JudgedRun& run : runs) {
        const bool is_further =
            contains(night.further, std::filesystem::path(run.record.path).lexically_relative(night.path).string());
        if (is_complete && night.flaws.empty() && !is_further && !run.record.is_complete()) {
          damaged_.push_back(run.record.path);
        }
        if (!run.record.is_complete()) continue;  // A later night may have its rest.
        for (const std::string& id : run.record.environment.run_ids) {
          const auto& [known, is_new_run] = night_of_run_.emplace(id, night.name);
          if (!is_new_run) repeated_[run.record.path] = known->second;
        }
      }
      const bool planned = is_planned(night.plan, environment);
      states_.emplace(key, at->second.add({night.name, std::move(runs), is_complete, planned}, good_));
      present_.insert(key);
    }
    add_absent(night, before);
    add_missing(night);
    known_.emplace_back(night.started, night.name);
  }

  // Of the last night that was added. Records may have been lost since it was collected.
  void report_night(const Night& night, NightReport& report) {
    report.missing = std::move(reported_missing_);
    if (!baseline_.empty() && !has_baseline_) {
      report.flaws.push_back(escape_control(baseline_) +
                             " has no record of these machines, so it cannot be the baseline");
    }
    for (const std::string& path : damaged_) {
      report.flaws.push_back(escape_control(path) + " is incomplete; it was complete when the night was collected");
    }
    for (const auto& [path, before] : repeated_) {
      report.flaws.push_back(
          fmt::format("{} repeats a run of night {}; this machine has no newer run", escape_control(path), before));
    }
    for (const NightTask& task : night.plan) {
      const auto is_here = [&](const MachineKind& key) { return is_of_place(task, places_.at(key).environment()); };
      const auto is_it = [&](const LackingTask& lacking) { return lacking.task.name() == task.name(); };
      if (std::ranges::any_of(present_, is_here) || std::ranges::any_of(night.lacking, is_it)) continue;
      report.flaws.push_back(task.name() + " has lost its record since the night was collected");
    }
    for (auto& [key, state] : states_) report.places.push_back(std::move(state));
  }

  SavedState save(const Night& night, Beginning first) {
    SavedState state;
    state.night = night.name;
    state.started = night.started;
    state.first = std::move(first);
    state.plan = night.plan;
    state.nights = known_;
    if (state.nights.size() > kMostNamesOfNights) {
      state.nights.erase(state.nights.begin(), state.nights.end() - static_cast<std::ptrdiff_t>(kMostNamesOfNights));
    }
    constexpr size_t kNightsOfRuns = 60;
    std::set<std::string> newest;
    for (size_t i = known_.size() - std::min(known_.size(), kNightsOfRuns); i < known_.size(); ++i) {
      newest.insert(known_[i].second);
    }
    for (const auto& [id, its_night] : night_of_run_) {
      if (newest.count(its_night) != 0) state.runs.emplace(id, its_night);
    }
    state.missing = missing_;
    state.places = std::move(places_);
    return state;
  }

 private:
  void add_baseline(const MachineKind& key, PlaceHistory& place) {
    std::vector<JudgedRun> runs = read_runs(baseline_, key, background_);
    const std::filesystem::path path = std::filesystem::path(baseline_ + "/").lexically_normal().parent_path();
    if (runs.empty()) return;
    has_baseline_ = true;
    place.add({escape_control(path.filename().string()), std::move(runs)}, {});
  }

  // The places without a run on this night. One that is no longer planned is forgotten once nothing of it is open.
  void add_absent(const Night& night, const std::set<MachineKind>& before) {
    for (auto at = places_.begin(); at != places_.end();) {
      auto& [key, place] = *at;
      const bool was_here = before.count(key) != 0;
      if (present_.count(key) != 0) {
        ++at;
      } else if (is_planned(night.plan, place.environment())) {
        const auto absence =
            is_needed(night, place.environment()) ? PlaceHistory::Absence::Missing : PlaceHistory::Absence::NotNeeded;
        states_.emplace(key, place.without_run(night.name, absence));
        ++at;
      } else {
        const bool stays = place.was_planned() && place.has_open();
        if (was_here || stays) states_.emplace(key, place.without_run(night.name, PlaceHistory::Absence::Unplanned));
        at = stays ? std::next(at) : places_.erase(at);
      }
    }
  }

  // Whether no other machine has run all of its tasks.
  bool is_needed(const Night& night, const Environment& environment) const {
    return std::ranges::any_of(night.plan, [&](const NightTask& task) {
      if (!is_of_place(task, environment)) return false;
      const bool has_run = std::ranges::any_of(
          present_, [&](const MachineKind& key) { return is_of_place(task, places_.at(key).environment()); });
      return !has_run || find_task(night.lacking, task) != night.lacking.end();
    });
  }

  void add_missing(const Night& night) {
    std::vector<MissingSince> missing;
    reported_missing_.clear();
    for (const LackingTask& lacking : night.lacking) {
      const auto known = find_task(missing_, lacking.task);
      const bool is_new = known == missing_.end();
      const std::string since = is_new ? night.name : known->since;
      missing.push_back({lacking.task, lacking.reason, since, lacking.is_incomplete});
      reported_missing_.push_back({lacking, false, true, since, is_new});
    }
    for (const MissingSince& known : missing_) {
      if (find_task(missing, known.task) != missing.end()) continue;
      const bool planned = find_task(night.plan, known.task) != night.plan.end();
      reported_missing_.push_back({{known.task, known.is_incomplete, known.reason}, true, planned, known.since, false});
    }
    missing_ = std::move(missing);
  }

  std::string folder_, baseline_;
  const compare::CompareContext& background_;
  std::set<std::string> good_;
  std::set<MachineKind> present_;
  std::vector<std::string> damaged_;                 // Records of the last night.
  bool has_baseline_ = false;                        // Of any place.
  std::map<std::string, std::string> night_of_run_;  // By the run's id.
  std::map<std::string, std::string> repeated_;      // Records of the last night, with an earlier night of their run.
  std::vector<std::pair<std::string, std::string>> known_;  // As SavedState::nights.
  std::vector<MissingSince> missing_;
  std::vector<MissingTask> reported_missing_;
  std::map<MachineKind, PlaceHistory> places_;
  std::map<MachineKind, PlaceState> states_;
};

// A state to go on from, and the nights that it does not know.
struct Start {
  std::optional<SavedState> state;
  Beginning first;
  std::vector<const Night*> nights;  // Oldest first; the last one is tonight.
};

std::string date_in(const Night& night) {
  const auto date = date_of(night.started);
  return date ? to_string(*date) : "";
}

Start begin_with(const Nights& all, size_t from) {
  Start start;
  const Night& tonight = all.tonight();
  const Night& first = all.nights.at(from);
  start.first = {first.name, first.started, tonight.name, date_in(tonight)};
  for (size_t i = from; i < all.nights.size(); ++i) start.nights.push_back(&all.nights[i]);
  return start;
}

std::optional<size_t> index_by_name(const Nights& all, const std::string& name) {
  const auto found = std::ranges::find_if(all.nights, [&](const Night& night) { return night.name == name; });
  if (found == all.nights.end()) return std::nullopt;
  return static_cast<size_t>(found - all.nights.begin());
}

// The nights that a state does not know, from its first one on.
std::vector<const Night*> unknown_to(const SavedState& state, const Nights& all) {
  std::vector<const Night*> unknown;
  for (const Night& night : all.nights) {
    if (night.started >= state.first.started && !state.knows(night)) unknown.push_back(&night);
  }
  return unknown;
}

// Goes on from the newest state that knows all nights before it; of two nights that ended at once neither knows the
// other. Without such a state, from the newest one.
Start go_on(const Nights& all, const compare::CompareContext& background, std::vector<std::string>& flaws) {
  std::optional<SavedState> newest;
  std::vector<std::string> wrong;
  for (size_t i = all.nights.size() - 1; i-- > 0;) {
    const std::string path = all.nights[i].path + "/" + kStateFile;
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) continue;
    std::optional<SavedState> state;
    try {
      state = read_state(path, background);
    } catch (const ExitError& stop) {
      wrong.emplace_back(stop.what());
      continue;
    }
    const auto is_of_state = [&](const NightTask& task) { return find_task(state->plan, task) != state->plan.end(); };
    if (std::ranges::none_of(all.tonight().plan, is_of_state)) {
      wrong.push_back(escape_control(path) + ": it is of another plan: it has no task of tonight");
      continue;
    }
    const auto is_earlier = [&](const Night* night) { return night->started < state->started; };
    if (std::ranges::none_of(unknown_to(*state, all), is_earlier)) {
      newest = std::move(state);
      break;
    }
    if (!newest) newest = std::move(state);
  }
  flaws.insert(flaws.end(), wrong.begin(), wrong.end());
  if (!newest) {
    flaws.emplace_back(
        "no state of an earlier night; `recapture nightly diff NIGHTS --first` begins with the nights that are kept");
    return begin_with(all, 0);
  }
  Start start;
  start.first = newest->first;
  start.nights = unknown_to(*newest, all);
  if (start.nights.empty() || start.nights.back() != &all.tonight()) start.nights.push_back(&all.tonight());
  start.state = std::move(newest);
  return start;
}

// Of a night that a person chose as the first, each further report begins in the same way.
std::optional<Beginning> own_beginning(const Night& tonight, const compare::CompareContext& background) {
  std::error_code error;
  const std::string path = tonight.path + "/" + kStateFile;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return std::nullopt;
  try {
    Beginning first = read_state(path, background).first;
    if (first.chosen == tonight.name) return first;
  } catch (const ExitError&) {  // It is made again.
  }
  return std::nullopt;
}

Start start_of(const Nights& all, const ReportChoice& choice, const compare::CompareContext& background,
               std::vector<std::string>& flaws) {
  if (choice.first) {
    const auto from = choice.from.empty() ? std::optional<size_t>(0) : index_by_name(all, escape_control(choice.from));
    if (!from)
      throw ExitError(Exit::Usage,
                      escape_control(choice.from) + " is not a night before the one that is reported, nor that one");
    return begin_with(all, *from);
  }
  if (const auto own = own_beginning(all.tonight(), background)) {
    if (const auto from = index_by_name(all, own->night)) return begin_with(all, *from);
  }
  return go_on(all, background, flaws);
}

// Marks what entries of ci/accepted.toml accept.
void accept(const ReportChoice& choice, const Night& tonight, NightReport& report) {
  const AcceptedTests accepted(choice.accepted, tonight.started);
  report.notes.insert(report.notes.end(), accepted.notes().begin(), accepted.notes().end());
  for (PlaceState& place : report.places) {
    const std::string machine = accepted_name(place.environment);
    for (NotJudged& test : place.not_judged) test.accepted = accepted.words(test.test, machine);
    for (TestState& test : place.tests) {
      if (!is_open(test.state) && !is_closed(test.state)) test.accepted = accepted.words(test.change.test, machine);
    }
    if (place.is_planned) continue;
    const bool is_open_now = tally_of(place).open > 0;
    if (place.absent_since != report.night && !is_open_now) continue;
    report.flaws.push_back(fmt::format("{} is no longer planned, since {}", place.name, place.absent_since));
  }
}

// The newest night is older than its period.
std::string overdue(const Night& night, const ReportChoice& choice) {
  if (!choice.now || choice.period_days == 0 || !choice.night.empty()) return "";
  std::tm parts{};
  if (strptime(night.collected.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return "";
  constexpr double kDay = 24 * 3600.0, kGrace = 1.5;  // One night may take longer than another.
  const double age = std::difftime(*choice.now, timegm(&parts));
  if (age <= kGrace * kDay * choice.period_days) return "";
  return fmt::format(
      "{} was collected {:.0f} days ago, and a night is due every {} (`days` of its tier in ci/matrix.toml)",
      night.name, age / kDay, choice.period_days == 1 ? "day" : fmt::format("{} days", choice.period_days));
}

}  // namespace

Tally tally_of(const PlaceState& place) {
  Tally tally;
  add(place, tally);
  return tally;
}

Tally tally_of(const NightReport& report) {
  Tally tally;
  for (const PlaceState& place : report.places) add(place, tally);
  return tally;
}

size_t missing_tasks(const NightReport& report) {
  return static_cast<size_t>(
      std::ranges::count_if(report.missing, [](const MissingTask& task) { return !task.is_closed; }));
}

bool NightReport::is_complete() const {
  const auto is_judged = [](const PlaceState& place) {
    const Tally tally = tally_of(place);
    const bool has_results = place.is_here ? place.judged > 0 : !place.is_needed;
    return has_results && tally.not_judged == 0 && tally.open == 0;
  };
  return flaws.empty() && missing_tasks(*this) == 0 && !places.empty() && std::ranges::all_of(places, is_judged);
}

ReportedNight report_of(const std::string& folder, const ReportChoice& choice,
                        const compare::CompareContext& background) {
  const Nights all = read_nights(folder, choice.night);
  const Night& tonight = all.tonight();
  ReportedNight reported;
  NightReport& report = reported.report;
  report.night = tonight.name;
  if (all.nights.size() > 1) report.before = all.nights[all.nights.size() - 2].name;
  report.flaws = all.flaws;
  report.flaws.insert(report.flaws.end(), tonight.flaws.begin(), tonight.flaws.end());
  if (std::string late = overdue(tonight, choice); !late.empty()) report.flaws.push_back(std::move(late));
  std::vector<std::string> wrong;
  Start start = start_of(all, choice, background, wrong);
  report.flaws.insert(report.flaws.end(), wrong.begin(), wrong.end());
  const bool is_known = start.state.has_value() || wrong.empty();  // Else no state is written: each night says so.
  Layout places(folder, choice.baseline, background);
  if (start.state) places.restore(std::move(*start.state));
  for (const Night* night : start.nights) places.add(*night);
  places.report_night(tonight, report);
  accept(choice, tonight, report);
  reported.state_path = tonight.path + "/" + kStateFile;
  if (is_known && all.is_newest) reported.state = places.save(tonight, std::move(start.first));
  return reported;
}

Exit exit_for(const NightReport& report) {
  const Tally tally = tally_of(report);
  if (tally.red() > 0) return Exit::Changed;
  if (!report.is_complete()) return Exit::Inconclusive;
  const bool is_back = std::ranges::any_of(report.missing, [](const MissingTask& task) { return task.is_closed; });
  const bool has_new_baseline =
      std::ranges::any_of(report.places, [](const PlaceState& place) { return !place.new_baseline.empty(); });
  return tally.healed + tally.closed + tally.changes > 0 || is_back || has_new_baseline ? Exit::Harmless
                                                                                        : Exit::AsExpected;
}

}  // namespace recapture::nightly
