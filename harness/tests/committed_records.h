// The records below reports/ as compare reads them: a side for each release, on each machine.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/sides.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/this_tree.h"

namespace recapture {

// Every recorded release on each machine, read once for all tests of a process.
struct CommittedRecords {
  CompareContext background = read_compare_context(kRoot);
  std::vector<MachineSides> machines;

  CommittedRecords() {
    std::vector<Record> all;
    for (Record& record : read_records_below(kRoot + "/reports")) {
      if (record.broken() == Break::Nothing) all.push_back(std::move(record));
    }
    machines = sides_by_machine(std::move(all), background);
  }

  static const CommittedRecords& get() {
    static const CommittedRecords records;
    return records;
  }

  // Whether the release ran on the machine that compared() compares on.
  bool has(const std::string& release) const {
    return std::any_of(machines.begin(), machines.end(), [&](const MachineSides& machine) {
      return machine.name.rfind("NVIDIA H200", 0) == 0 && machine.name.find("CUDA runtime") == std::string::npos &&
             std::any_of(machine.releases.begin(), machine.releases.end(),
                         [&](const Side& each) { return each.name == release; });
    });
  }

  Comparison compared(const std::string& from, const std::string& to) const {
    for (const MachineSides& machine : machines) {
      if (machine.name.rfind("NVIDIA H200", 0) != 0 || machine.name.find("CUDA runtime") != std::string::npos) continue;
      const auto side = [&](const std::string& release) {
        return std::find_if(machine.releases.begin(), machine.releases.end(),
                            [&](const Side& each) { return each.name == release; });
      };
      const auto before = side(from), after = side(to);
      if (before == machine.releases.end() || after == machine.releases.end()) continue;
      Comparison comparison = compare_sides(*before, *after, background);
      if (comparison.tests.size() > 500) return comparison;
    }
    ADD_FAILURE() << "no records of " << from << " and " << to;
    return {};
  }

  // Calls `check(from, to, comparison)` for each pair of releases of each machine, in both directions.
  template <class Check>
  void for_each_pair(const Check& check) const {
    for (const MachineSides& machine : machines) {
      for (const Side& from : machine.releases) {
        for (const Side& to : machine.releases) {
          if (&from != &to) check(from, to, compare_sides(from, to, background));
        }
      }
    }
  }
};

}  // namespace recapture
