// All inputs for judging a record.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/model/neighbour.h"
#include "harness/model/program.h"
#include "harness/model/record.h"
#include "harness/model/tree.h"

namespace recapture {

// The requirements of the user.
struct Requirements {
  bool gpu = false;       // Without a GPU, every test that needs one is missing.
  bool recorder = false;  // A required call that the recorder did not see is missing.
  bool as_before =
      false;  // A test is missing if it is unavailable now but has a result in a committed record of such a machine.
};

// Tests with a result, each with the smallest number of GPUs: by release, GPU, packed or not, and libraries that the
// run chose, since an older library may lack features.
using Available = std::map<MachineKind, std::unordered_map<std::string, int>>;

struct Rules {
  std::vector<Expectation> expectations;
  std::map<std::string, TreeCase> tree;             // Empty: nothing is stale.
  std::map<std::string, CaseProgram> programs;      // Beside the cases.
  std::map<std::string, std::string> old_hashes;    // From the old kind of hash in records to today's.
  std::unordered_map<std::string, Effect> effects;  // Of documented outcomes, by test, from the catalogue.
  std::set<std::string> simulated;                  // Cases that are models of ours, from the catalogue.
  Available available;                              // Tests that had results.
  Measured measured;                                // Where the tree's records are from.
  Requirements demands;

  // Whether a case's code has changed since the record; that of its program in Python is another.
  bool stale(const Record& record, const std::string& case_id) const;
  // Whether the code that a test ran has changed since the record.
  bool is_stale_test(const Record& record, const std::string& test_id) const;
};

// Reads them from Recapture's own tree, without `available` and the machines in `measured`; only the code of `cases` is
// read if there are any.
Rules rules_of(const std::string& root, const Requirements& demands = {}, const std::set<std::string>& cases = {});

// The machines that these records are from.
void add_machines(const std::vector<Record>& records, Measured& measured);

Available available_in(const std::vector<Record>& records);
void add_available(const Record& record, Available& available);

// The smallest number of GPUs with which a test ran on such a machine; nothing if it never did.
std::optional<int> fewest_gpus(const Available& available, const Environment& machine, const std::string& test);

}  // namespace recapture
