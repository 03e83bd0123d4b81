#include "harness/judge/rules.h"

#include <fmt/format.h>

#include "harness/judge/verdict.h"

namespace recapture {

bool Rules::stale(const std::string& case_id, const std::string& recorded_hash) const {
  if (tree.empty()) return false;
  const auto now = tree.find(case_id);
  const auto old = old_hashes.find(recorded_hash);
  return now == tree.end() || now->second.hash != (old == old_hashes.end() ? recorded_hash : old->second);
}

Rules rules_of(const std::string& root, const Demands& demands) {
  Rules rules;
  rules.expectations = expectations_of(read_changes(root));
  rules.tree = cases_in_tree(root);
  rules.old_hashes = hashes_of_old_records(root);
  rules.demands = demands;
  if (demands.as_before) rules.available = available_in(read_records_below(root + "/reports"));
  return rules;
}

std::string key_of(const Record& record, const std::string& test) {
  return fmt::format("{}|{}|{}|{}", record.where("release"), record.where("gpu"),
                     record.environment.value("packed", false), test);
}

std::set<std::string> available_in(const std::vector<Record>& records) {
  std::set<std::string> keys;
  for (const Record& record : records) {
    for (const TestRecord& test : record.tests) {
      if (classify(kind_of_id(test.id()), test) != Result::Unavailable) keys.insert(key_of(record, test.id()));
    }
  }
  return keys;
}

}  // namespace recapture
