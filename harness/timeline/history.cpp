#include "harness/timeline/history.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>

#include "harness/base/letter_case.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"
#include "harness/store/copies.h"
#include "harness/verdict/operators.h"
#include "harness/words/observation.h"

namespace recapture::timeline {
namespace {

bool same_outcome(const Showing& a, const Showing& b) {
  return a.row.result == b.row.result && a.signature == b.signature;
}

bool is_turn(const Showing& a, const Showing& b) {
  const auto by_chance = [](const Showing& one) {
    return one.is_rate && (one.row.result == Result::Reproduced || one.row.result == Result::Unseen);
  };
  return !same_outcome(a, b) && !(by_chance(a) && by_chance(b));
}

// Runs of one place may differ in the driver and the release's own runtime, and in nothing else.
MachineKind place_of(const Environment& environment) { return {environment.release, environment.machine.place()}; }

// "" if there is no readable text.
std::string words_at(const Json& environment, const std::string& key) {
  if (key == "host" || key == "gpu_id") return "";  // Hashes.
  const auto found = environment.find(key);
  if (found == environment.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_structured() ? "" : found->dump();
}

std::vector<Difference> differences(const Shown& before, const Shown& after) {
  std::vector<Difference> all;
  const auto add = [&](const std::string& what, const std::string& from, const std::string& to) {
    const bool has_words = !from.empty() && !to.empty();
    all.push_back({what, has_words ? from : "", has_words ? to : ""});
  };
  const Json &old = before.run->record.environment.json(), &now = after.run->record.environment.json();
  std::set<std::string> keys;
  for (const Json* environment : {&old, &now}) {
    for (const auto& [key, value] : environment->items()) keys.insert(key);
  }
  for (const char* of_the_run : {"recapture", "shard", "require", "break"}) keys.erase(of_the_run);
  for (const std::string& key : keys) {
    const auto value = [&](const Json& environment) { return environment.value(key, Json()); };
    if (!old.contains(key) || !now.contains(key)) continue;  // One of the two program versions did not record it.
    if (value(old) != value(now)) add(key, words_at(old, key), words_at(now, key));
  }
  if (before.run->revision != after.run->revision) add("revision", before.run->revision, after.run->revision);
  // The two formats hash different sources.
  const bool comparable = old.value("recapture", 1) == now.value("recapture", 1);
  if (comparable && before.what->code != after.what->code) add("the case's code", "", "");
  return all;
}

bool comes_before(const TestHistory& a, const TestHistory& b) {
  const auto key = [](const TestHistory& one) {
    return std::tie(one.test, one.machine.release, one.machine.machine.gpu, one.runs.back().run->started,
                    one.machine.kind);
  };
  return key(a) < key(b);
}

// Computes outcomes, changes and rates from the runs.
void sum_up(TestHistory& series) {
  for (auto run = series.runs.rbegin(); run != series.runs.rend(); ++run) {
    const auto known = std::ranges::find_if(
        series.outcomes, [&](const Outcome& outcome) { return same_outcome(*outcome.newest.what, *run->what); });
    Outcome& outcome =
        known == series.outcomes.end() ? series.outcomes.emplace_back(Outcome{*run, nullptr, 0}) : *known;
    outcome.first = run->run;
    ++outcome.runs;
    if (series.turns.empty()) ++series.in_a_row;
    const auto before = std::next(run);
    if (before != series.runs.rend() && is_turn(*before->what, *run->what)) {
      series.turns.push_back({*before, *run, differences(*before, *run)});
    }
  }
  for (const Shown& run : series.runs) {
    if (run.what->rate) series.rates.push_back(*run.what->rate);
  }
  series.machine = series.runs.back().run->record.environment;
}

// Another driver or runtime is another kind of machine: a change in its first run may be caused by it.
void add_turns_across_machines(std::vector<TestHistory>& all) {
  for (TestHistory& series : all) {
    const Shown& first = series.runs.front();
    const Shown* before = nullptr;
    for (const TestHistory& other : all) {
      if (&other == &series || other.test != series.test || place_of(other.machine) != place_of(series.machine))
        continue;
      const auto later = std::partition_point(other.runs.begin(), other.runs.end(),
                                              [&](const Shown& run) { return run.run->started < first.run->started; });
      if (later == other.runs.begin()) continue;
      const Shown& last = *std::prev(later);
      if (before == nullptr || before->run->started < last.run->started) before = &last;
    }
    if (before != nullptr && is_turn(*before->what, *first.what)) {
      series.turns.push_back({*before, first, differences(*before, first)});
    }
  }
}

bool is_wanted(const Run& run, const Wanted& wanted) {
  const Environment& environment = run.record.environment;
  const bool has_gpu = GpuFilter(wanted.gpu).covers(environment.machine.gpu);
  const bool is_release = wanted.release.empty() ||
                          environment.release.without_nightly_date() == Release(wanted.release).without_nightly_date();
  return run.record.broken() == Break::Nothing && has_gpu && is_release &&
         (wanted.driver.empty() || environment.machine.driver == wanted.driver) &&
         (wanted.since.empty() || run.started >= wanted.since);
}

}  // namespace

HistoryQuery::HistoryQuery(const std::vector<Run>& runs, const Rules& rules, const Wanted& wanted) {
  for (const Run& run : runs) {
    if (is_wanted(run, wanted)) runs_.push_back(judged(run, rules));
  }
  std::ranges::sort(runs_, [](const ShownRun& a, const ShownRun& b) {
    return std::tie(a.run->started, a.run->path) < std::tie(b.run->started, b.run->path);
  });
}

HistoryQuery::ShownRun HistoryQuery::judged(const Run& run, const Rules& rules) {
  const Record& record = run.record;
  ShownRun made{&run, record.environment.kind, {}, {}};
  for (const std::string& test : record.plan) made.lines.emplace(case_of(test), 0);
  for (const TestRecord& test : record.tests) ++made.lines[test.case_id()];
  for (const auto& [id, again] : record.confirmations) made.lines[case_of(id)] += again.size();
  for (TestVerdict& row : judge_record(record, rules)) {
    if (row.is_simulated) continue;
    Showing& showing = made.showings[row.test];
    showing.code = code_of(record, row.test);
    if (const TestRecord* line = record.find(row.test)) {
      showing.is_rate = row.kind == Kind::Reproduces && line->has_rate();
      if (row.kind == Kind::Operator && row.result == Result::Holds) {
        showing.signature = forms_of_operator(operator_results(*line));
      } else if (row.kind == Kind::Reproduces && row.result != Result::Invalid) {
        showing.signature = line->seen();
      }
      showing.rate = rate_run(record, *line, rules);
    }
    showing.row = std::move(row);
  }
  return made;
}

// Each run once.
std::vector<const HistoryQuery::ShownRun*> HistoryQuery::without_copies(const std::vector<const ShownRun*>& runs,
                                                                        const std::string& case_id) {
  std::map<MachineKind, std::vector<const ShownRun*>> by_kind;
  for (const ShownRun* run : runs) by_kind[run->kind].push_back(run);
  std::set<const ShownRun*> kept;
  for (const auto& [kind, some] : by_kind) {
    std::vector<StoredRun> stored;
    for (const ShownRun* run : some) stored.push_back({run->run->ids, run->lines.at(case_id)});
    for (const size_t place : each_once(stored)) kept.insert(some[place]);
  }
  std::vector<const ShownRun*> all;
  std::ranges::copy_if(runs, std::back_inserter(all), [&](const ShownRun* run) { return kept.count(run) != 0; });
  return all;
}

std::vector<TestHistory> HistoryQuery::of_case(const std::string& case_id,
                                               const std::vector<std::string>& tests) const {
  std::vector<const ShownRun*> runs;
  for (const ShownRun& run : runs_) {
    if (run.lines.count(case_id) != 0) runs.push_back(&run);
  }
  runs = without_copies(runs, case_id);
  std::vector<TestHistory> all;
  for (const std::string& test : tests) {
    std::map<MachineKind, TestHistory> by_machine;
    for (const ShownRun* run : runs) {
      const auto showing = run->showings.find(test);
      if (showing == run->showings.end()) continue;
      TestHistory& series = by_machine[run->kind];
      series.test = test;
      if (showing->second.row.ran) {
        series.runs.push_back({run->run, &showing->second});
      } else {
        ++series.not_run;
      }
    }
    for (auto& [where, series] : by_machine) {
      if (series.runs.empty()) continue;
      sum_up(series);
      all.push_back(std::move(series));
    }
  }
  add_turns_across_machines(all);
  std::ranges::sort(all, comes_before);
  return all;
}

}  // namespace recapture::timeline
