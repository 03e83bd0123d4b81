#include "harness/timeline/operators.h"

#include <algorithm>
#include <filesystem>

#include "harness/model/release.h"
#include "harness/store/operator_records.h"
#include "harness/store/select.h"
#include "harness/verdict/verdict.h"

namespace recapture::timeline {
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
  const OperatorRecords newest = operator_records(records);
  OperatorTable table;
  for (const auto& [release, tests] : newest) table.releases.push_back(release);
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
