// Which tests of a release have records on one machine, and so what is left to run there.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/rules.h"

namespace recapture {

// What the runs on a machine have of a test; higher values are preferred.
enum class Coverage {
  New,           // None of them planned it.
  NotRun,        // Planned, but without a line.
  Unavailable,   // It could not run.
  Stale,         // The case has changed since that run.
  Inconclusive,  // Another run may decide: may_be_decided().
  Complete,      // It ran with the current code.
};
inline constexpr std::array<std::string_view, 6> kCoverages = {"new",   "not run",      "unavailable",
                                                               "stale", "inconclusive", "complete"};
inline std::string_view to_string(Coverage coverage) { return kCoverages.at(static_cast<size_t>(coverage)); }

// Without operators, which are a table of their own.
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
  int gpus = 0;        // How many it needs, as far as known: from its case, and from runs in which it could run.
  double seconds = 0;  // To be filled in.
};

struct LeftToRun {
  std::map<Coverage, size_t> counts, operators;  // Of the wanted tests. "Unavailable": more GPUs would not help.
  std::vector<LeftTest> tests;  // Not complete, and unavailable only for want of GPUs; in the wanted order.
};

// A fix that no run has seen fail without its remedy on the newest release where its failure occurs and the fix can be
// left out.
struct UnbrokenFix {
  std::string test;
  std::string release;  // That release, not a build; "" if none is on record.
};

class CoverageIndex {
 public:
  // Runs broken on purpose count for unbroken_fixes() alone, and those that somebody sent for left() alone. Does not
  // refer to the records afterwards.
  CoverageIndex(const std::vector<Record>& records, const Rules& rules);
  // The same of a board's runs, by these rules: they are not judged again. The rows that a board leaves out decide
  // nothing here.
  CoverageIndex(const std::vector<JudgedRun>& runs, const Rules& rules);

  // With a GPU, LibTorch's own libraries and no variables: by GPU and driver.
  const std::vector<MachineId>& machines() const { return machines_; }

  // What is left of these tests for a release on a machine, identified by MachineId::with_overrides(). For a case that
  // needs no GPU, a run without one is enough, as in stands_in(). Simulated cases are not run on machines with a GPU,
  // and elsewhere once, with any release.
  LeftToRun left(const std::string& release, const MachineId& machine, const std::vector<WantedTest>& wanted) const;

  // On any machine and with any library; in the wanted order.
  std::vector<UnbrokenFix> unbroken_fixes(const std::vector<WantedTest>& wanted) const;

 private:
  struct Known {
    Coverage coverage = Coverage::New;
    int gpus = 0;  // The largest number with which it was unavailable.
  };
  using Tests = std::unordered_map<std::string, Known>;

  void add(const Record& record, const std::vector<TestVerdict>& rows, const Rules& rules);
  int gpus_of(const WantedTest& wanted, const Known& entry) const;
  Coverage of_any_release(const std::string& test) const;  // On machines without a GPU.

  std::map<MachineKind, Tests> known_;
  std::unordered_map<std::string, int> fewest_gpus_;  // With which a test ran on any machine.
  std::vector<MachineId> machines_;
  std::map<std::string, std::set<Release>> failures_;            // By failure_of(): where the failure occurs.
  std::map<std::string, std::set<Release>> broken_fixes_;        // By test: where it failed without its remedy,
  std::map<std::string, std::set<Release>> inapplicable_fixes_;  // and where it, or leaving it out, does not apply.
};

}  // namespace recapture
