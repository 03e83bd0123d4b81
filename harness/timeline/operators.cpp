#include "harness/timeline/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "harness/base/text.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/store/operator_records.h"
#include "harness/store/select.h"
#include "harness/verdict/verdict.h"

namespace recapture::timeline {
namespace {

KnownOfOperator known_of(const Operator& one, const std::vector<KnownOfOperator>& all) {
  const auto found = std::ranges::find(all, one.name, &KnownOfOperator::name);
  return found == all.end() ? KnownOfOperator() : *found;
}

// By release, and by the operator's test: of the runs that count for an operator, the newest that asks.
using LaterResults = std::map<std::string, std::map<std::string, LaterResult>>;
LaterResults later_results(const std::vector<Record>& records) {
  LaterResults later;
  for (const Record* record : operator_runs(records)) {
    for (const TestRecord& test : record->tests) {
      if (test.case_id() != kLaterCase) continue;
      auto result = later_result(test);
      if (result && result->is_confirmed) later[record->env("release")][test.name()] = std::move(*result);
    }
  }
  return later;
}

}  // namespace

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
  const std::vector<KnownOfOperator> all_untried = read_known(root, "untried", operators);
  const std::vector<KnownOfOperator> all_known_later = read_known(root, "later", operators);
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
    row.untried = known_of(one, all_untried);
    row.known_later = known_of(one, all_known_later);
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
