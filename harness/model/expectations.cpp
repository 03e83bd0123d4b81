#include "harness/model/expectations.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/toml.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"

namespace recapture {
namespace {

Where where_from(const toml::table& entry, const std::string& place) {
  const auto* table = entry["where"].as_table();
  if (table == nullptr) throw ExitError(Exit::Usage, place + ": needs 'where', such as { release = \">=2.8\" }");
  only_keys(*table, {"release", "gpu", "driver", "cuda_runtime", "nccl"}, place);
  Where where;
  where.release = text_in(*table, "release", place, false);
  where.gpu = text_in(*table, "gpu", place, false);
  where.driver = text_in(*table, "driver", place, false);
  where.cuda_runtime = text_in(*table, "cuda_runtime", place, false);
  where.nccl = text_in(*table, "nccl", place, false);
  for (const std::string& range : {where.release, where.driver, where.cuda_runtime, where.nccl}) {
    if (!range.empty()) satisfies("2.0.0", range);  // Throws if it is invalid.
  }
  return where;
}

std::optional<Effect> effect_from(const toml::table& entry, Result result, const std::string& place) {
  const std::string word = text_in(entry, "effect", place, false);
  if (word.empty()) return std::nullopt;
  if (result != Result::Different) throw ExitError(Exit::Usage, place + ": only 'different' results have an 'effect'");
  const auto effect = effect_of(word);
  if (!effect) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not an effect; the effects are {}", place,
                                             escape_control(word), fmt::join(kEffects, ", ")));
  }
  return effect;
}

// One entry below a change: the same observation of one or several tests.
void take_expectations(const toml::table& entry, const std::string& place, Deviation& change) {
  only_keys(entry, {"tests", "where", "result", "seen", "effect", "why", "records"}, place);
  Expectation e;
  e.place = place;
  e.why = text_in(entry, "why", place, false);
  if (e.why.empty()) e.why = change.what;
  e.source = change.number;
  e.where = where_from(entry, place);
  const std::string result_word = text_in(entry, "result", place);
  const auto result = result_from(result_word);
  if (!result) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a result; the results are {}", place,
                                             escape_control(result_word), fmt::join(kResults, ", ")));
  }
  if (*result == Result::Unseen || *result == Result::Invalid) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' cannot be expected: it shows nothing", place, result_word));
  }
  e.result = *result;
  const bool any_would_do = *result != Result::Different && *result != Result::Broken && *result != Result::Crashed;
  e.seen = text_in(entry, "seen", place, !any_would_do);
  e.effect = effect_from(entry, *result, place);
  e.records = texts_in(entry, "records", place);
  if (e.records.empty()) throw ExitError(Exit::Usage, place + ": needs 'records', the reports that show it");
  const auto tests = texts_in(entry, "tests", place);
  if (tests.empty()) throw ExitError(Exit::Usage, place + ": needs 'tests'");
  for (const std::string& test : tests) {
    e.test = test;
    change.expectations.push_back(e);
  }
}

}  // namespace

bool Where::covers(const Record& record) const {
  return in_range(record.env("release"), release) && GpuFilter(gpu).covers(record.environment.machine.gpu) &&
         in_range(record.env("driver"), driver) && in_range(record.env("cuda_runtime"), cuda_runtime) &&
         in_range(record.env("nccl"), nccl);
}

bool Where::covers(const Record& record, const Neighbour& neighbour) const {
  const std::string& own = record.environment.machine.gpu;
  const bool has_gpu =
      GpuFilter(gpu).covers(own) || (!neighbour.gpu.gpu.empty() && GpuFilter(gpu).covers(neighbour.gpu.gpu));
  return has_gpu && in_range_until_measured(record.env("release"), release, neighbour.release) &&
         in_range_until_measured(record.env("driver"), driver, neighbour.gpu.driver) &&
         in_range(record.env("cuda_runtime"), cuda_runtime) && in_range(record.env("nccl"), nccl);
}

bool Expectation::guessed_for(const std::string& release) const {
  const Release wanted(without_local(release));
  if (!wanted.is_version()) return false;
  bool any = false, some_not_older = false, some_not_newer = false;
  for (const std::string& record : records) {  // "2.11.0/nvidia-h200.jsonl"
    const Release shown(without_local(record.substr(0, record.find('/'))));
    if (!shown.is_version()) continue;
    any = true;
    some_not_older = some_not_older || !shown.is_older_than(wanted);
    some_not_newer = some_not_newer || !wanted.is_older_than(shown);
  }
  return any && !(some_not_older && some_not_newer);
}

std::vector<Deviation> read_deviations(const std::string& root) {
  const std::string path = root + "/cases/expectations.toml";
  if (!std::filesystem::exists(path)) return {};
  const toml::table file = parse_toml(path);
  only_keys(file, {"change"}, path);
  std::vector<Deviation> changes;
  const auto* list = tables_in(file, "change", path, "[[change]]");
  if (list == nullptr) return changes;
  for (const auto& node : *list) {
    const std::string place = place_of(path, node);
    const auto* entry = node.as_table();
    only_keys(*entry, {"what", "number", "since", "inapplicable", "expect"}, place);
    Deviation change;
    change.place = place;
    change.what = text_in(*entry, "what", place);
    change.number = text_in(*entry, "number", place);
    change.is_open_question = change.number.rfind("open question", 0) == 0;
    change.since = text_in(*entry, "since", place, false);
    if (!change.since.empty()) require_version(change.since);
    if (entry->contains("inapplicable") && !(*entry)["inapplicable"].is_boolean()) {
      throw ExitError(Exit::Usage, place + ": 'inapplicable' is true or false");
    }
    change.inapplicable = (*entry)["inapplicable"].value_or(false);
    if (const auto* expected = tables_in(*entry, "expect", place, "[[change.expect]]")) {
      for (const auto& below : *expected) take_expectations(*below.as_table(), place_of(path, below), change);
    }
    for (Expectation& e : change.expectations) {
      e.inapplicable = change.inapplicable;
      e.is_open_question = change.is_open_question;
    }
    if (change.expectations.empty()) throw ExitError(Exit::Usage, place + ": needs a [[change.expect]]");
    changes.push_back(change);
  }
  return changes;
}

std::vector<Expectation> expectations_of(const std::vector<Deviation>& changes) {
  std::vector<Expectation> all;
  for (const Deviation& change : changes) {
    all.insert(all.end(), change.expectations.begin(), change.expectations.end());
  }
  return all;
}

const Expectation* find_expectation(const std::vector<Expectation>& all, const std::string& test, const Record& record,
                                    const Neighbour& neighbour) {
  const Expectation* found = nullptr;
  for (const Expectation& e : all) {
    if (e.test != test || !e.where.covers(record)) continue;
    if (found != nullptr) {
      throw ExitError(Exit::Usage, fmt::format("{}: shadowed by {}: both apply to {} on {}", e.place, found->place,
                                               test, record.machine()));
    }
    found = &e;
  }
  if (found != nullptr || neighbour.is_on_record()) return found;
  const auto its = std::ranges::find_if(
      all, [&](const Expectation& e) { return e.test == test && e.where.covers(record, neighbour); });
  return its == all.end() ? nullptr : &*its;
}

bool expects_health(const std::vector<Expectation>& all, const std::string& fix, const Record& record,
                    const Neighbour& neighbour) {
  const std::string case_id = case_of(fix);
  const auto info = record.cases.find(case_id);
  if (info == record.cases.end()) return false;
  bool has_failure = false;
  for (const std::string& name : info->second.tests) {
    const std::string test = fmt::format("{}.{}", case_id, name);
    if (kind_of_id(test) != Kind::Reproduces || is_of_program(name) != is_of_program(name_of(fix))) continue;
    has_failure = true;
    const Expectation* expected = find_expectation(all, test, record, neighbour);
    if (expected == nullptr || expected->result != Result::Healthy) return false;
  }
  return has_failure;
}

std::vector<Release> releases_on_record(const std::vector<Expectation>& all) {
  std::set<std::string_view> names;
  for (const Expectation& e : all) {
    for (const std::string& record : e.records) names.insert(std::string_view(record).substr(0, record.find('/')));
  }
  std::vector<Release> releases;
  for (const std::string_view name : names) {
    if (Release release{std::string(name)}; release.is_version()) releases.push_back(std::move(release));
  }
  std::ranges::sort(releases);
  return releases;
}

}  // namespace recapture
