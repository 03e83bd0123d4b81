#include "harness/history/series.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

#include "harness/case/events.h"
#include "harness/judge/version.h"
#include "harness/record/spelling.h"

namespace recapture {
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

// What the driver and the release's own runtime may differ by, and nothing else.
MachineKind place_of(const Environment& environment) { return {environment.release, environment.machine.place()}; }

// "" for what has no words, or none that say anything.
std::string words_at(const Environment& environment, const std::string& key) {
  if (key == "host" || key == "gpu_id") return "";  // Hashes.
  const auto found = environment.json().find(key);
  if (found == environment.json().end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_structured() ? "" : found->dump();
}

std::vector<Difference> differences(Index& index, const Shown& before, const Shown& after) {
  std::vector<Difference> all;
  const auto add = [&](const std::string& what, const std::string& from, const std::string& to) {
    const bool has_words = !from.empty() && !to.empty();
    all.push_back({what, has_words ? from : "", has_words ? to : ""});
  };
  const Environment old = index.environment_of(*before.run), now = index.environment_of(*after.run);
  std::set<std::string> keys;
  for (const Environment* environment : {&old, &now}) {
    for (const auto& [key, value] : environment->json().items()) keys.insert(key);
  }
  for (const char* of_the_run : {"recapture", "shard", "require", "break"}) keys.erase(of_the_run);
  for (const std::string& key : keys) {
    const auto value = [&](const Environment& environment) { return environment.json().value(key, Json()); };
    if (!old.json().contains(key) || !now.json().contains(key)) continue;  // One of the two programs did not ask.
    if (value(old) != value(now)) add(key, words_at(old, key), words_at(now, key));
  }
  if (before.run->revision != after.run->revision) add("revision", before.run->revision, after.run->revision);
  // Hashes of the two formats count different things.
  const bool comparable = old.json().value("recapture", 1) == now.json().value("recapture", 1);
  if (comparable && before.what->code != after.what->code) add("the case's code", "", "");
  return all;
}

// "2.15" means all releases of that line, and "2.15.0+cu130", as torch.__version__ has it, 2.15.0.
bool is_of(const std::string& release, const std::string& wanted) {
  return wanted.empty() || release == wanted || release == without_local(wanted) || release.rfind(wanted + ".", 0) == 0;
}

bool comes_before(const Series& a, const Series& b) {
  const auto release = [](const Series& one) { return one.machine.release; };
  if (a.test != b.test) return a.test < b.test;
  const bool a_is = is_version(release(a)), b_is = is_version(release(b));
  if (a_is != b_is) return a_is;
  if (a_is && (older(release(a), release(b)) || older(release(b), release(a)))) return older(release(a), release(b));
  const auto rest = [&](const Series& one) {
    return std::tuple(release(one), one.machine.machine.gpu, one.runs.back().run->started, one.machine.kind);
  };
  return rest(a) < rest(b);
}

// What is on file twice: a copy, and a shard that a merged record has too. Of a copy that was cut the whole counts.
void keep_one_of_each_run(Index& index, std::vector<CaseLines>& parts, const std::map<int64_t, MachineKind>& kinds) {
  using Id = std::pair<MachineKind, std::string_view>;
  const auto ids_of = [&](const CaseLines& part) {
    const std::string& ids = part.run->ids;
    std::vector<Id> all;
    for (size_t at = 0; at < ids.size();) {
      const size_t end = std::min(ids.find('\n', at), ids.size());
      all.emplace_back(kinds.at(part.run->environment), std::string_view(ids).substr(at, end - at));
      at = end + 1;
    }
    return all;
  };
  std::map<Id, const CaseLines*> owners;
  for (const CaseLines& part : parts) {
    const auto ids = ids_of(part);
    for (const Id& id : ids) {
      const auto [owner, is_first] = owners.emplace(id, &part);
      if (is_first) continue;
      const CaseLines& other = *owner->second;
      const std::pair its(index.size_of(other), ids_of(other).size()), ours(index.size_of(part), ids.size());
      if (its < ours) owner->second = &part;
    }
  }
  std::vector<CaseLines> kept;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(kept), [&](const CaseLines& part) {
    const auto ids = ids_of(part);
    return std::all_of(ids.begin(), ids.end(), [&](const Id& id) { return owners.at(id) == &part; });
  });
  parts = std::move(kept);
}

// Outcomes, turns and rates, from the runs.
void sum_up(Index& index, Series& series) {
  for (auto run = series.runs.rbegin(); run != series.runs.rend(); ++run) {
    const auto known = std::find_if(series.outcomes.begin(), series.outcomes.end(), [&](const Outcome& outcome) {
      return same_outcome(*outcome.newest.what, *run->what);
    });
    Outcome& outcome =
        known == series.outcomes.end() ? series.outcomes.emplace_back(Outcome{*run, nullptr, 0}) : *known;
    outcome.first = run->run;
    ++outcome.runs;
    if (series.turns.empty()) ++series.in_a_row;
    const auto before = std::next(run);
    if (before != series.runs.rend() && is_turn(*before->what, *run->what)) {
      series.turns.push_back({*before, *run, differences(index, *before, *run)});
    }
  }
  for (const Shown& run : series.runs) {
    if (run.what->rate) series.rates.push_back(*run.what->rate);
  }
  series.machine = index.environment_of(*series.runs.back().run);
}

// A driver or a runtime makes another kind of machine: what its first run shows may have come with it.
void join(Index& index, std::vector<Series>& all) {
  for (Series& series : all) {
    const Shown& first = series.runs.front();
    const Shown* before = nullptr;
    for (const Series& other : all) {
      if (&other == &series || other.test != series.test || place_of(other.machine) != place_of(series.machine))
        continue;
      const auto later = std::partition_point(other.runs.begin(), other.runs.end(),
                                              [&](const Shown& run) { return run.run->started < first.run->started; });
      if (later == other.runs.begin()) continue;
      const Shown& last = *std::prev(later);
      if (before == nullptr || before->run->started < last.run->started) before = &last;
    }
    if (before != nullptr && is_turn(*before->what, *first.what)) {
      series.turns.push_back({*before, first, differences(index, *before, first)});
    }
  }
}

}  // namespace

bool Histories::wants(const Run& run) {
  const auto [known, is_new] = wanted_machines_.emplace(run.environment, false);
  if (is_new) {
    const Environment& environment = index_.environment_of(run);
    const std::string gpu = environment.machine.gpu;
    const bool is_broken = environment.broken != Break::Nothing;
    const bool has_gpu =
        wanted_.gpu.empty() ||
        (wanted_.gpu == "none" ? gpu.empty() : lower_case(gpu).find(lower_case(wanted_.gpu)) != std::string::npos);
    known->second = !is_broken && has_gpu && is_of(environment.release, wanted_.release) &&
                    (wanted_.driver.empty() || environment.machine.driver == wanted_.driver);
  }
  return known->second && (wanted_.since.empty() || run.started >= wanted_.since);
}

const Showing* Histories::judged(const CaseLines& part, const std::string& test) {
  const auto [known, is_new] = judged_.emplace(std::tuple(test, part.run->environment, part.lines), Judged());
  Judged& same = known->second;
  if (is_new) {
    auto record = std::make_unique<CaseRecord>(index_.record_of(part, test));
    const Record& its = record->with(part.rates);
    const bool has_it =
        its.find(test) != nullptr || std::find(its.plan.begin(), its.plan.end(), test) != its.plan.end();
    if (has_it) same.record = std::move(record);
  }
  if (same.record == nullptr) return nullptr;
  const auto [showing, is_first] = same.showings.emplace(same.record->own(part.rates), Showing());
  if (!is_first) return &showing->second;
  const Record& record = same.record->with(part.rates);
  Showing& made = showing->second;
  for (Row& row : judge_record(record, rules_)) {
    if (row.test == test) made.row = std::move(row);
  }
  if (const TestRecord* line = record.find(test)) {
    made.is_rate = line->has(key::tries);
    if (made.row.kind == Kind::Reproduces && made.row.result != Result::Invalid) made.signature = line->text(key::seen);
    made.rate = rate_run(record, *line, rules_);
  }
  if (const auto info = record.cases.find(made.row.case_id); info != record.cases.end()) made.code = info->second.hash;
  return &made;
}

std::vector<Series> Histories::of_case(const std::string& case_id, const std::vector<std::string>& tests) {
  std::vector<CaseLines> parts = index_.parts_of(case_id);
  parts.erase(std::remove_if(parts.begin(), parts.end(), [&](const CaseLines& part) { return !wants(*part.run); }),
              parts.end());
  std::sort(parts.begin(), parts.end(), [](const CaseLines& a, const CaseLines& b) {
    return std::tie(a.run->started, a.run->path) < std::tie(b.run->started, b.run->path);
  });
  std::map<int64_t, MachineKind> kinds;  // By environment.
  for (const CaseLines& part : parts) {
    const auto [kind, is_new] = kinds.emplace(part.run->environment, MachineKind());
    if (is_new) kind->second = Environment(index_.environment_of(*part.run)).kind;
  }
  keep_one_of_each_run(index_, parts, kinds);
  std::vector<Series> all;
  for (const std::string& test : tests.empty() ? index_.tests_of(case_id) : tests) {
    std::map<MachineKind, Series> by_machine;
    for (const CaseLines& part : parts) {
      const Showing* showing = judged(part, test);
      if (showing == nullptr) continue;
      Series& series = by_machine[kinds.at(part.run->environment)];
      series.test = test;
      if (showing->row.ran) {
        series.runs.push_back({part.run, showing});
      } else {
        ++series.not_run;
      }
    }
    for (auto& [where, series] : by_machine) {
      if (series.runs.empty()) continue;
      sum_up(index_, series);
      all.push_back(std::move(series));
    }
  }
  join(index_, all);
  std::sort(all.begin(), all.end(), comes_before);
  return all;
}

Available available_in(Index& index, const std::string& case_id) {
  Available fewest;
  std::set<std::pair<int64_t, int64_t>> known;
  for (const CaseLines& part : index.parts_of(case_id)) {
    if (!known.emplace(part.run->environment, part.lines).second) continue;
    for (const auto& [key, gpus] : available_in({index.record_of(part).with(part.rates)})) {
      const auto [its, is_new] = fewest.emplace(key, gpus);
      its->second = std::min(its->second, gpus);
    }
  }
  return fewest;
}

}  // namespace recapture
