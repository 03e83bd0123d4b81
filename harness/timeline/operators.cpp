#include "harness/timeline/operators.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "harness/model/release.h"
#include "harness/store/select.h"
#include "harness/verdict/verdict.h"

namespace recapture::timeline {
namespace {

bool counts(const Record& record) {
  return record.broken() == Break::Nothing && record.environment.machine.is_plain() &&
         is_version(record.env("release"));
}

}  // namespace

const OperatorResult* OperatorOnRelease::find(OperatorForm form) const {
  const auto found = std::find_if(results.begin(), results.end(), [&](const auto& one) { return one.form == form; });
  return found == results.end() ? nullptr : &*found;
}

OperatorTable operator_table(const std::string& root, const std::string& folder) {
  RecordFilter filter;
  filter.cases = {std::string(kOperatorsCase)};
  filter.only_planned = true;
  return operator_table(root, folder, newest_records(folder, filter).records);
}

OperatorTable operator_table(const std::string& root, const std::string& folder, const std::vector<Record>& records) {
  const std::vector<Operator> operators = read_operators(root);
  const std::vector<Instead> all_instead = read_instead(root, operators);
  const std::vector<Untried> all_untried = read_untried(root, operators);
  std::vector<const Record*> in_order;
  for (const Record& record : records) {
    if (counts(record)) in_order.push_back(&record);
  }
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const Record* a, const Record* b) { return a->environment.started < b->environment.started; });
  // Later records replace earlier ones. A test that broke counts only where no other has a result.
  std::map<std::string, std::map<std::string, const Record*>> newest;  // By release, by test.
  std::set<std::string> releases;
  for (const Record* record : in_order) {
    for (const TestRecord& test : record->tests) {
      if (test.case_id() != kOperatorsCase) continue;
      const Result result = read_test(Kind::Operator, test).result;
      if (result != Result::Holds && result != Result::Inapplicable && result != Result::Broken) continue;
      const auto [its, is_first] = newest[record->env("release")].try_emplace(test.id(), record);
      if (!is_first && result != Result::Broken) its->second = record;
      releases.insert(record->env("release"));
    }
  }
  OperatorTable table;
  table.releases.assign(releases.begin(), releases.end());
  sort_releases(table.releases);
  for (const Operator& one : operators) {
    OperatorRow row{one, {}, {}, {}};
    const auto instead = std::find_if(all_instead.begin(), all_instead.end(),
                                      [&](const Instead& each) { return each.name == one.name; });
    if (instead != all_instead.end()) row.instead = *instead;
    const auto untried = std::ranges::find_if(all_untried, [&](const Untried& each) { return each.name == one.name; });
    if (untried != all_untried.end()) row.untried = *untried;
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
      row.releases.push_back(std::move(on));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace recapture::timeline
