#include "harness/record/merge.h"

#include <algorithm>

#include "harness/record/exit.h"
#include "harness/record/record.h"
#include "harness/record/writer.h"

namespace recapture {

void merge_records(const std::vector<std::string>& parts, const std::string& out) {
  std::vector<Record> records;
  records.reserve(parts.size());
  for (const std::string& path : parts) records.push_back(read_record(path));
  const auto identity = [](Json environment) {
    environment.erase("volatile");
    environment.erase("shard");
    return environment;
  };
  Record whole;
  for (const Record& part : records) {
    if (identity(part.environment) != identity(records.front().environment)) {
      throw Stop(Exit::Usage, part.path + ": its environment is not that of " + records.front().path +
                                  "; only shards of one run can be merged");
    }
    whole.plan.insert(whole.plan.end(), part.plan.begin(), part.plan.end());
    for (const TestRecord& test : part.tests) {
      if (whole.find(test.id()) != nullptr) {
        throw Stop(Exit::Usage, part.path + ": " + test.id() + " is in another of the records too");
      }
      whole.add(test);
    }
    whole.cases.insert(part.cases.begin(), part.cases.end());
    whole.confirmations.insert(part.confirmations.begin(), part.confirmations.end());
    if (part.end != "complete" && whole.end.empty()) whole.end = part.end.empty() ? "cut short" : part.end;
  }
  const auto by_case = [](const std::string& a, const std::string& b) { return case_of(a) < case_of(b); };
  std::stable_sort(whole.plan.begin(), whole.plan.end(), by_case);
  std::vector<TestRecord> tests = whole.tests;
  std::stable_sort(tests.begin(), tests.end(),
                   [&](const TestRecord& a, const TestRecord& b) { return by_case(a.id(), b.id()); });
  RecordWriter writer = RecordWriter::create(out);
  Json environment = records.front().environment;
  environment.erase("shard");
  writer.write(environment);
  writer.write({{"plan", whole.plan}});
  std::string previous;
  for (const TestRecord& test : tests) {
    if (test.case_id() != previous) writer.write(whole.cases.at(previous = test.case_id()).to_json());
    writer.write(test.line);
    for (const TestRecord& again : whole.confirmations[test.id()]) writer.write(again.line);
  }
  writer.write({{"end", whole.end.empty() ? "complete" : whole.end}});
}

}  // namespace recapture
