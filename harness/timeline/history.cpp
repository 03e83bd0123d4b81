#include "harness/timeline/history.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>

#include "harness/base/letter_case.h"
#include "harness/model/gpu.h"
#include "harness/model/origin.h"
#include "harness/model/release.h"
#include "harness/store/machine_runs.h"
#include "harness/verdict/operators.h"
#include "harness/words/observation.h"

namespace recapture::timeline {
namespace {

bool same_outcome(const Shown& a, const Shown& b) {
  return a.row().result == b.row().result && a.signature == b.signature;
}

// Not of a race: seen in one run and not in the next is no change.
bool is_turn(const Shown& a, const Shown& b) {
  const bool by_chance = a.run.is_rate && b.run.is_rate && agree(a.run, b.run);
  return !same_outcome(a, b) && !by_chance;
}

// Runs of one place may differ in the driver and the release's own runtime, and in nothing else.
MachineKind machine_kind_of(const Environment& environment) {
  return {environment.release, environment.machine.place()};
}

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
  const Json &old = before.run.environment().json(), &now = after.run.environment().json();
  std::set<std::string> keys;
  for (const Json* environment : {&old, &now}) {
    for (const auto& [key, value] : environment->items()) keys.insert(key);
  }
  for (const char* of_the_run : {"recapture", "shard", "require", "break", "volatile", "revision"})
    keys.erase(of_the_run);
  for (const std::string& key : keys) {
    const auto value = [&](const Json& environment) { return environment.value(key, Json()); };
    if (!old.contains(key) || !now.contains(key)) continue;  // One of the two program versions did not record it.
    if (value(old) != value(now)) add(key, words_at(old, key), words_at(now, key));
  }
  const std::string from = before.record().env("revision"), to = after.record().env("revision");
  if (from != to) add("revision", from, to);
  // The two formats hash different sources.
  const bool comparable = old.value("recapture", 1) == now.value("recapture", 1);
  if (comparable && before.run.code != after.run.code) add("the case's code", "", "");
  return all;
}

bool comes_before(const TestHistory& a, const TestHistory& b) {
  const auto key = [](const TestHistory& one) {
    return std::tie(one.test, one.machine.release, one.machine.machine.gpu, one.runs.back().started(),
                    one.machine.kind);
  };
  return key(a) < key(b);
}

// Computes outcomes, changes and rates from the runs.
void sum_up(TestHistory& series) {
  for (auto run = series.runs.rbegin(); run != series.runs.rend(); ++run) {
    const auto known = std::ranges::find_if(series.outcomes,
                                            [&](const Outcome& outcome) { return same_outcome(outcome.newest, *run); });
    Outcome& outcome = known == series.outcomes.end() ? series.outcomes.emplace_back(Outcome{*run, *run, 0}) : *known;
    outcome.first = *run;
    ++outcome.runs;
    if (series.turns.empty()) ++series.in_a_row;
    const auto before = std::next(run);
    if (before != series.runs.rend() && is_turn(*before, *run)) {
      series.turns.push_back({*before, *run, differences(*before, *run)});
    }
  }
  for (const Shown& run : series.runs) {
    if (run.rate) series.rates.push_back(*run.rate);
  }
  series.machine = series.runs.back().run.environment();
}

// Another driver or runtime is another kind of machine: a change in its first run may be caused by it.
void add_turns_across_machines(std::vector<TestHistory>& all) {
  for (TestHistory& series : all) {
    const Shown& first = series.runs.front();
    const Shown* before = nullptr;
    for (const TestHistory& other : all) {
      if (&other == &series || other.test != series.test ||
          machine_kind_of(other.machine) != machine_kind_of(series.machine) ||
          (was_sent(other.machine) && !was_sent(series.machine)))
        continue;
      const auto later = std::partition_point(other.runs.begin(), other.runs.end(), [&](const Shown& run) {
        return began_before(*run.run.run, *first.run.run);
      });
      if (later == other.runs.begin()) continue;
      const Shown& last = *std::prev(later);
      if (before == nullptr || began_before(*before->run.run, *last.run.run)) before = &last;
    }
    if (before != nullptr && is_turn(*before, first)) {
      series.turns.push_back({*before, first, differences(*before, first)});
    }
  }
}

bool is_wanted(const Environment& environment, const Wanted& wanted, const GpuFilter& gpu) {
  const bool is_release = wanted.release.empty() ||
                          environment.release.without_nightly_date() == Release(wanted.release).without_nightly_date();
  return gpu.covers(environment.machine.gpu) && is_release &&
         (wanted.driver.empty() || environment.machine.driver == wanted.driver) &&
         (wanted.since.empty() || environment.started >= wanted.since);
}

// Without simulated cases, which have no history.
std::vector<JudgedRun> judged(std::vector<Record> records, const Rules& rules) {
  std::vector<JudgedRun> runs;
  runs.reserve(records.size());
  for (Record& record : records) {
    std::vector<TestVerdict> rows = judge_record(record, rules);
    std::erase_if(rows, [](const TestVerdict& row) { return row.is_simulated; });
    runs.push_back({std::move(record), std::move(rows)});
  }
  return runs;
}

GpusOnRecord gpus_in(const std::vector<JudgedRun>& runs) {
  GpusOnRecord gpus;
  for (const JudgedRun& run : runs) gpus.add(run.record.environment);
  return gpus;
}

}  // namespace

HistoryQuery::HistoryQuery(std::vector<Record> records, const Rules& rules, const Wanted& wanted)
    : rules_(rules),
      runs_(judged(std::move(records), rules)),
      store_(runs_, [&, gpu = gpus_in(runs_).named(wanted.gpu)](const Environment& environment) {
        return is_wanted(environment, wanted, gpu);
      }) {}

Shown HistoryQuery::shown(const TestRun& run) const {
  const TestVerdict& row = *run.row;
  Shown made{run, "", rate_run(run.run->record, *run.line, rules_)};
  if (row.kind == Kind::Operator && row.result == Result::Holds) {
    made.signature = forms_of_operator(operator_results(*run.line));
  } else if (row.kind == Kind::Reproduces && row.result != Result::Invalid) {
    made.signature = run.line->seen();
  }
  return made;
}

std::vector<TestHistory> HistoryQuery::of(const std::vector<std::string>& tests) const {
  std::vector<TestHistory> all;
  for (const std::string& test : tests) {
    for (const auto& [machine, runs] : store_.by_machine(test)) {
      TestHistory series;
      series.test = test;
      for (const TestRun& run : runs.all()) {
        if (run.row->ran) {
          series.runs.push_back(shown(run));
        } else {
          ++series.not_run;
        }
      }
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
