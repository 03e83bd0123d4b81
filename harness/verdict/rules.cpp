#include "harness/verdict/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/base/parallel.h"
#include "harness/model/catalogue.h"
#include "harness/verdict/select.h"
#include "harness/verdict/verdict.h"

namespace recapture {

bool Rules::stale(const Record& record, const std::string& case_id) const {
  if (tree.empty()) return false;
  const auto now = tree.find(case_id);
  if (now == tree.end()) return true;
  const auto its = record.cases.find(case_id);
  if (its == record.cases.end()) return true;
  const std::string& then = its->second.hash;
  if (record.format() >= 2) return now->second.code != then;
  const auto old = old_hashes.find(then);
  return now->second.hash != (old == old_hashes.end() ? then : old->second);
}

Rules rules_of(const std::string& root, const Requirements& demands, const std::set<std::string>& cases) {
  Rules rules;
  rules.expectations = expectations_of(read_changes(root));
  rules.tree = cases_in_tree(root, cases);
  rules.old_hashes = hashes_of_old_records(root);
  if (std::filesystem::exists(catalogue_path(root))) {
    for (const CatalogueCase& one : read_catalogue(root)) {
      if (one.fidelity == Fidelity::Simulated) rules.simulated.insert(one.id);
      for (const CatalogueTest& test : one.tests) {
        if (test.effect) rules.effects[one.id + "." + test.name] = *test.effect;
      }
    }
  }
  rules.demands = demands;
  if (demands.as_before) rules.available = available_in(newest_records(root + "/reports").records);
  return rules;
}

namespace {

MachineKind kind_of_availability(const Environment& environment) {
  MachineKind kind{environment.release, environment.machine};
  kind.machine.driver.clear();
  kind.machine.runtime.clear();
  kind.machine.variables.clear();
  return kind;
}

}  // namespace

AvailabilityKey availability_key(const Record& record, const std::string& test) {
  return {kind_of_availability(record.environment), test};
}

Available available_in(const std::vector<Record>& records) {
  std::vector<std::vector<std::string>> ran(records.size());
  in_parallel(records.size(), [&](size_t i) {
    for (const TestRecord& test : records[i].tests) {
      std::string id = test.id();
      if (classify(kind_of_id(id), test) != Result::Unavailable) ran[i].push_back(std::move(id));
    }
  });
  std::map<MachineKind, std::map<std::string, int>> by_kind;
  for (size_t i = 0; i < records.size(); ++i) {
    const int gpus = records[i].environment.gpus;
    auto& tests = by_kind[kind_of_availability(records[i].environment)];
    for (std::string& test : ran[i]) {
      const auto [its, is_new] = tests.emplace(std::move(test), gpus);
      its->second = std::min(its->second, gpus);
    }
  }
  Available fewest;
  for (const auto& [kind, tests] : by_kind) {  // In the order of the result, so that each goes to its end.
    for (const auto& [test, gpus] : tests) fewest.emplace_hint(fewest.end(), AvailabilityKey{kind, test}, gpus);
  }
  return fewest;
}

}  // namespace recapture
