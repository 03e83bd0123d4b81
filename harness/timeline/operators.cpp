#include "harness/timeline/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "harness/base/exit.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"
#include "harness/model/release.h"
#include "harness/store/operator_records.h"
#include "harness/store/select.h"
#include "harness/verdict/verdict.h"

namespace recapture::timeline {
namespace {

std::vector<std::string> texts_at(const Json& json, const char* key) {
  std::vector<std::string> texts;
  if (!json.contains(key) || !json.at(key).is_array()) return texts;
  for (const Json& text : json.at(key)) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

// By release, and by the operator's test: of the runs that count for an operator, the newest that asks.
using LaterResults = std::map<std::string, std::map<std::string, LaterResult>>;
LaterResults later_results(const std::vector<Record>& records) {
  LaterResults later;
  for (const Record* record : operator_runs(records)) {
    for (const TestRecord& test : record->tests) {
      if (test.case_id() != kLaterCase) continue;
      if (auto result = later_result(test)) later[record->env("release")][test.name()] = std::move(*result);
    }
  }
  return later;
}

}  // namespace

std::optional<LaterResult> later_result(const TestRecord& test) {
  if (!test.has("facts") || !test.line.at("facts").is_object()) return std::nullopt;
  const Json json = try_parse_json(text_at(test.line.at("facts"), "later")).value_or(Json());
  if (!json.is_object()) return std::nullopt;
  LaterResult result{texts_at(json, "asked"), texts_at(json, "wrong")};
  return result.asked.empty() ? std::nullopt : std::optional(result);
}

std::vector<KnownLater> read_known_later(const std::string& root, const std::vector<Operator>& operators) {
  const std::string path = root + "/cases/operators.toml";
  std::vector<KnownLater> all;
  if (!std::filesystem::exists(path)) return all;
  const toml::table file = parse_toml(path);
  const toml::array* entries = tables_in(file, "later", path, "[[later]]");
  if (entries == nullptr) return all;
  for (const toml::node& node : *entries) {
    const toml::table& entry = *node.as_table();
    const std::string place = place_of(path, entry);
    only_keys(entry, {"operators", "why", "case"}, place);
    KnownLater known{texts_in(entry, "operators", place), text_in(entry, "why", place), text_in(entry, "case", place)};
    for (const std::string& name : known.operators) {
      if (std::ranges::none_of(operators, [&](const Operator& one) { return one.name == name; })) {
        throw ExitError(Exit::Usage, fmt::format("{}: there is no operator '{}' in operators.tsv", place, name));
      }
    }
    all.push_back(std::move(known));
  }
  return all;
}

bool OperatorTable::has_later() const {
  return std::ranges::any_of(rows, [](const OperatorRow& row) {
    return std::ranges::any_of(row.releases, [](const OperatorOnRelease& on) { return on.later.has_value(); });
  });
}

const OperatorResult* OperatorOnRelease::find(OperatorForm form) const {
  const auto found = std::find_if(results.begin(), results.end(), [&](const auto& one) { return one.form == form; });
  return found == results.end() ? nullptr : &*found;
}

OperatorTable operator_table(const std::string& root, const std::string& folder) {
  RecordFilter filter;
  filter.cases = {std::string(kOperatorsCase), std::string(kLaterCase)};
  filter.only_planned = true;
  return operator_table(root, folder, newest_records(folder, filter).records);
}

OperatorTable operator_table(const std::string& root, const std::string& folder, const std::vector<Record>& records) {
  const std::vector<Operator> operators = read_operators(root);
  const std::vector<Instead> all_instead = read_instead(root, operators);
  const std::vector<Untried> all_untried = read_untried(root, operators);
  const std::vector<KnownLater> all_known_later = read_known_later(root, operators);
  const OperatorRecords newest = operator_records(records);
  LaterResults later = later_results(records);
  OperatorTable table;
  for (const auto& [release, tests] : newest) table.releases.push_back(release);
  sort_releases(table.releases);
  for (const Operator& one : operators) {
    OperatorRow row{one, {}, {}, {}, {}};
    const auto instead = std::find_if(all_instead.begin(), all_instead.end(),
                                      [&](const Instead& each) { return each.name == one.name; });
    if (instead != all_instead.end()) row.instead = *instead;
    const auto untried = std::ranges::find_if(all_untried, [&](const Untried& each) { return each.name == one.name; });
    if (untried != all_untried.end()) row.untried = *untried;
    const auto known = std::ranges::find_if(all_known_later,
                                            [&](const KnownLater& each) { return contains(each.operators, one.name); });
    if (known != all_known_later.end()) row.known_later = *known;
    const std::string id = std::string(kOperatorsCase) + "." + one.test();
    for (const std::string& release : table.releases) {
      const auto& tests = newest.at(release);
      const auto found = tests.find(id);
      if (found == tests.end()) continue;
      const TestRecord& test = *found->second->find(id);
      const Result result = read_test(Kind::Operator, test).result;
      OperatorOnRelease on{release, std::filesystem::path(found->second->path).lexically_relative(folder).string(),
                           result == Result::Inapplicable, operator_results(test),
                           result == Result::Broken || read_operator(*found->second, test).is_lone_crash};
      if (const auto its = later[release].find(one.test()); its != later[release].end()) on.later = its->second;
      row.releases.push_back(std::move(on));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace recapture::timeline
