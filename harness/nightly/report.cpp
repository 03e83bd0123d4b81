#include "harness/nightly/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "harness/base/escape.h"
#include "harness/compare/sides.h"
#include "harness/model/release.h"

namespace recapture::nightly {
namespace {

// The tasks without a record, since when, and those that have one again.
std::vector<MissingTask> missing_of(const std::vector<Night>& nights) {
  const auto same = [](const NightTask& a, const NightTask& b) {
    return without_nightly_date(a.release) == without_nightly_date(b.release) && a.gpu == b.gpu && a.shard == b.shard &&
           a.of == b.of;
  };
  const auto missing_symbol = [&](const Night& night, const NightTask& task) {
    return std::ranges::any_of(night.lacking, [&](const LackingTask& each) { return same(each.task, task); });
  };
  const auto since = [&](size_t last, const NightTask& task) {
    while (last > 0 && missing_symbol(nights[last - 1], task)) --last;
    return nights[last].name;
  };
  const size_t tonight = nights.size() - 1;
  std::vector<MissingTask> all;
  for (const LackingTask& lacking : nights[tonight].lacking) {
    const bool is_new = tonight == 0 || !missing_symbol(nights[tonight - 1], lacking.task);
    all.push_back({lacking, false, true, since(tonight, lacking.task), is_new});
  }
  if (tonight == 0) return all;
  for (const LackingTask& lacking : nights[tonight - 1].lacking) {
    if (missing_symbol(nights[tonight], lacking.task)) continue;
    const NightPlan& plan = nights[tonight].plan;
    const bool is_planned = std::ranges::any_of(plan, [&](const NightTask& task) { return same(task, lacking.task); });
    all.push_back({lacking, true, is_planned, since(tonight - 1, lacking.task), false});
  }
  return all;
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
    tally.open += test.state == NightState::NotJudged ? 1 : 0;
    if (is_still && (tally.oldest.empty() || test.since < tally.oldest)) tally.oldest = test.since;
  }
  tally.changes += place.changes.size();
  for (const auto& [reason, tests] : place.not_judged) tally.not_judged += tests.size();
}

// The histories of all places, night by night.
class Layout {
 public:
  Layout(std::string folder, std::string baseline, const compare::CompareContext& background)
      : folder_(std::move(folder)), baseline_(std::move(baseline)), background_(background) {
    for (const std::string& path : compare::baselines_below(folder_)) {
      good_.insert((std::filesystem::path(folder_) / path).string());
    }
  }

  void add(const Night& night) {
    before_ = std::move(present_);
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
        if (is_complete && night.flaws.empty() && !run.record.is_complete()) damaged_.push_back(run.record.path);
        if (!run.record.is_complete()) continue;  // A later night may have its rest.
        for (const std::string& id : run.record.environment.run_ids) {
          const auto& [known, is_new_run] = night_of_run_.emplace(id, night.name);
          if (!is_new_run) repeated_[run.record.path] = known->second;
        }
      }
      states_[key] = at->second.add({night.name, std::move(runs), is_complete}, good_);
      present_.insert(key);
    }
  }

  // Of the last night that was added; planned places without a run in it as well. Records may
  // have been lost since the night was collected.
  void report_night(const Night& night, NightReport& report) {
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
    for (const auto& [key, place] : places_) {
      const bool planned = is_planned(night.plan, place.environment());
      if (present_.count(key) != 0) {
        report.places.push_back(std::move(states_.at(key)));
      } else if (planned) {
        report.places.push_back(place.without_run(planned));
      } else if (before_.count(key) != 0) {
        report.places.push_back(place.without_run(planned));
        report.flaws.push_back(report.places.back().name + " ran the last night, and is not planned any more");
      }
    }
  }

 private:
  void add_baseline(const MachineKind& key, PlaceHistory& place) {
    std::vector<JudgedRun> runs = read_runs(baseline_, key, background_);
    const std::filesystem::path path = std::filesystem::path(baseline_ + "/").lexically_normal().parent_path();
    if (runs.empty()) return;
    has_baseline_ = true;
    place.add({escape_control(path.filename().string()), std::move(runs)}, {});
  }

  std::string folder_, baseline_;
  const compare::CompareContext& background_;
  std::set<std::string> good_;
  std::set<MachineKind> present_, before_;
  std::vector<std::string> damaged_;                 // Records of the last night.
  bool has_baseline_ = false;                        // Of any place.
  std::map<std::string, std::string> night_of_run_;  // By the run's id.
  std::map<std::string, std::string> repeated_;      // Records of the last night, with an earlier night of their run.
  std::map<MachineKind, PlaceHistory> places_;
  std::map<MachineKind, PlaceState> states_;
};

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
    return place.is_here && place.judged > 0 && place.not_judged.empty() && tally_of(place).open == 0;
  };
  return flaws.empty() && missing_tasks(*this) == 0 && !places.empty() && std::ranges::all_of(places, is_judged);
}

NightReport report_of(const std::string& folder, const ReportChoice& choice,
                      const compare::CompareContext& background) {
  const Nights all = read_nights(folder, choice.night);
  NightReport report;
  report.night = all.tonight().name;
  if (all.nights.size() > 1) report.before = all.nights[all.nights.size() - 2].name;
  report.flaws = all.flaws;
  report.flaws.insert(report.flaws.end(), all.tonight().flaws.begin(), all.tonight().flaws.end());
  report.missing = missing_of(all.nights);
  Layout places(folder, choice.baseline, background);
  for (const Night& night : all.nights) places.add(night);
  places.report_night(all.tonight(), report);
  return report;
}

Exit exit_for(const NightReport& report) {
  const Tally tally = tally_of(report);
  if (tally.red() > 0) return Exit::Changed;
  if (!report.is_complete()) return Exit::Inconclusive;
  const bool is_back = std::ranges::any_of(report.missing, [](const MissingTask& task) { return task.is_closed; });
  const bool has_new_baseline =
      std::ranges::any_of(report.places, [](const PlaceState& place) { return !place.new_baseline.empty(); });
  return tally.healed + tally.closed + tally.changes > 0 || is_back || has_new_baseline ? Exit::NewlyFixed
                                                                                        : Exit::AsExpected;
}

}  // namespace recapture::nightly
