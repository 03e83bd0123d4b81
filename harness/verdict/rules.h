// All that a record is judged by, put together in one place.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/model/record.h"
#include "harness/model/tree.h"

namespace recapture {

// What the user insists on.
struct Requirements {
  bool gpu = false;        // Without a GPU everything that needs one is missing.
  bool recorder = false;   // A demanded call that no recorder saw is missing.
  bool as_before = false;  // What a committed record had on such a machine and is unavailable now is missing.
};

// Tests that could once run, each with the fewest GPUs that it had: by release, GPU, packed or not, and libraries that
// the run chose, since an older library may lack what the usual one has.
using Available = std::map<MachineKind, std::map<std::string, int>>;

struct Rules {
  std::vector<Expectation> expectations;
  std::map<std::string, TreeCase> tree;           // Empty: nothing is stale.
  std::map<std::string, std::string> old_hashes;  // Of records with hashes of another kind, to those of today.
  std::map<std::string, Effect> effects;          // Of documented outcomes, by test, from the catalogue.
  std::set<std::string> simulated;                // Cases that are a model of ours, from the catalogue.
  Available available;                            // What was there before.
  Requirements demands;

  // Whether a case's code is no longer what the record was made with.
  bool stale(const Record& record, const std::string& case_id) const;
};

// Reads them from Recapture's own tree; what a case's code is, of those cases alone if there are any.
Rules rules_of(const std::string& root, const Requirements& demands = {}, const std::set<std::string>& cases = {});

Available available_in(const std::vector<Record>& records);
void add_available(const Record& record, Available& available);

// The fewest GPUs with which a test ran on such a machine; nothing where it never did.
std::optional<int> fewest_gpus(const Available& available, const Environment& machine, const std::string& test);

}  // namespace recapture
