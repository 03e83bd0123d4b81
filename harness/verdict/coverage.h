// What is on record of the tests of a release on one machine, and so what is left to run there.
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"

namespace recapture {

// What the runs on a machine have of a test; more counts before less.
enum class Coverage {
  New,          // None of them planned it.
  NotRun,       // Planned, and there is no line of it.
  Unavailable,  // It could not run.
  Stale,        // The case has changed since it ran or could not.
  Complete,     // It ran as it is now.
};
inline constexpr std::array<std::string_view, 5> kCoverages = {"new", "not run", "unavailable", "stale", "complete"};
inline std::string_view to_string(Coverage coverage) { return kCoverages.at(static_cast<size_t>(coverage)); }

// Operators are a table of their own, and no tests here.
std::vector<std::string> complete_tests(const std::vector<const Record*>& records, const Rules& rules);  // Sorted.
size_t comparable_tests(const std::vector<std::string>& from, const std::vector<std::string>& to);

struct WantedTest {
  std::string test;
  Needs needs;  // Of its case.
  bool is_simulated = false;
};

struct LeftTest {
  std::string test;
  Coverage why = Coverage::New;
  int gpus = 0;        // So many it needs, as far as is known: by its case, and by the runs in which it could run.
  double seconds = 0;  // To be filled in.
};

struct LeftToRun {
  std::map<Coverage, size_t> counts, operators;  // Of the wanted tests. "Unavailable" is what more GPUs do not help.
  std::vector<LeftTest> tests;                   // Those that are not complete, nor unavailable, in the wanted order.
};

class CoverageIndex {
 public:
  // Runs broken on purpose do not count. Nothing of the records is kept.
  CoverageIndex(const std::vector<Record>& records, const Rules& rules);

  // With a GPU, LibTorch's own libraries and no variables of their own: by GPU and driver.
  const std::vector<MachineId>& machines() const { return machines_; }

  // What is left of these tests for a release on a machine, as MachineId::with_overrides() tells machines apart. Of a
  // case that needs no GPU a run without one will do, as stands_in() has it. What is simulated is wanted on no machine
  // with a GPU, and elsewhere once, with whichever release.
  LeftToRun left(const std::string& release, const MachineId& machine, const std::vector<WantedTest>& wanted) const;

 private:
  struct Known {
    Coverage coverage = Coverage::New;
    int gpus = 0;  // The most with which it was unavailable.
  };
  using Tests = std::unordered_map<std::string, Known>;

  void add(const Record& record, const Rules& rules);
  int gpus_of(const WantedTest& wanted) const;
  Coverage of_any_release(const std::string& test) const;  // On machines without a GPU.

  std::map<MachineKind, Tests> known_;
  std::unordered_map<std::string, int> fewest_gpus_;  // With which a test ran, anywhere.
  std::vector<MachineId> machines_;
};

}  // namespace recapture
