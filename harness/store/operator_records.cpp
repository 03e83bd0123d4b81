#include "harness/store/operator_records.h"

#include <algorithm>
#include <set>

#include "harness/model/operators.h"
#include "harness/model/origin.h"
#include "harness/verdict/evidence.h"

namespace recapture {
namespace {

bool counts(const Record& record) {
  const Environment& environment = record.environment;
  return environment.broken == Break::Nothing && environment.machine.is_plain() && environment.release.is_version();
}

}  // namespace

std::vector<const Record*> operator_runs(const std::vector<Record>& records) {
  std::vector<const Record*> runs;
  std::set<Release> own;
  for (const Record& record : records) {
    if (!counts(record)) continue;
    runs.push_back(&record);
    if (!was_sent(record.environment)) own.insert(record.environment.release);
  }
  std::erase_if(runs, [&](const Record* record) {
    return was_sent(record->environment) && own.contains(record->environment.release);
  });
  std::ranges::stable_sort(runs, {}, [](const Record* record) { return record->environment.started; });
  return runs;
}

OperatorRecords operator_records(const std::vector<Record>& records) {
  OperatorRecords newest;
  for (const Record* record : operator_runs(records)) {
    for (const TestRecord& test : record->tests) {
      if (test.case_id() != kOperatorsCase) continue;
      const Result result = read_test(Kind::Operator, test).result;
      if (result != Result::Holds && result != Result::Inapplicable && result != Result::Broken) continue;
      const auto [newest_of_test, is_first] = newest[record->env("release")].try_emplace(test.id(), record);
      if (!is_first && result != Result::Broken) newest_of_test->second = record;
    }
  }
  return newest;
}

}  // namespace recapture
