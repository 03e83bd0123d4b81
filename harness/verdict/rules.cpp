#include "harness/verdict/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/base/parallel.h"
#include "harness/model/catalogue.h"
#include "harness/model/origin.h"
#include "harness/verdict/verdict.h"

namespace recapture {

bool Rules::stale(const Record& record, const std::string& case_id) const {
  if (tree.empty()) return false;
  const auto current = tree.find(case_id);
  if (current == tree.end()) return true;
  const auto recorded = record.cases.find(case_id);
  if (recorded == record.cases.end()) return true;
  const std::string& then = recorded->second.hash;
  if (record.format() >= 2) return current->second.code != then;
  const auto old = old_hashes.find(then);
  return current->second.hash != (old == old_hashes.end() ? then : old->second);
}

bool Rules::is_stale_test(const Record& record, const std::string& test_id) const {
  if (!is_of_program(name_of(test_id))) return stale(record, case_of(test_id));
  if (tree.empty()) return false;
  const auto now = programs.find(case_of(test_id));
  return now == programs.end() || now->second.code != code_of(record, test_id);
}

Rules rules_of(const std::string& root, const Requirements& demands, const std::set<std::string>& cases) {
  Rules rules;
  rules.expectations = expectations_of(read_deviations(root));
  rules.measured.releases = releases_on_record(rules.expectations);
  rules.tree = cases_in_tree(root, cases);
  rules.programs = programs_in_tree(root, cases);
  rules.old_hashes = hashes_of_old_records(root);
  if (std::filesystem::exists(catalogue_path(root))) {
    for (const CatalogueCase& described : read_catalogue(root)) {
      if (described.fidelity == Fidelity::Simulated) rules.simulated.insert(described.id);
      for (const CatalogueTest& test : described.tests) {
        if (test.effect) rules.effects[described.id + "." + test.name] = *test.effect;
      }
    }
  }
  rules.demands = demands;
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

void add_machines(const std::vector<Record>& records, Measured& measured) {
  for (const Record& record : records) measured.add(record.environment);
}

void add_available(const Record& record, Available& available) {
  if (was_sent(record.environment)) return;  // The project's own machine may have the same GPU with another driver.
  const int gpus = record.environment.gpus;
  auto& tests = available[kind_of_availability(record.environment)];
  for (const TestRecord& test : record.tests) {
    if (!could_run(test)) continue;
    const auto [fewest, is_new] = tests.try_emplace(test.id(), gpus);
    fewest->second = std::min(fewest->second, gpus);
  }
}

Available available_in(const std::vector<Record>& records) {
  std::map<MachineKind, std::vector<const Record*>> by_kind;
  for (const Record& record : records) by_kind[kind_of_availability(record.environment)].push_back(&record);
  const std::vector<std::pair<MachineKind, std::vector<const Record*>>> kinds(by_kind.begin(), by_kind.end());
  std::vector<Available> parts(kinds.size());
  in_parallel(kinds.size(), [&](size_t i) {
    for (const Record* record : kinds[i].second) add_available(*record, parts[i]);
  });
  Available available;
  for (Available& part : parts) available.merge(part);
  return available;
}

std::optional<int> fewest_gpus(const Available& available, const Environment& machine, const std::string& test) {
  const auto tests = available.find(kind_of_availability(machine));
  if (tests == available.end()) return std::nullopt;
  const auto fewest = tests->second.find(test);
  return fewest == tests->second.end() ? std::nullopt : std::optional(fewest->second);
}

}  // namespace recapture
