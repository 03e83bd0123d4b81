// All that a record is judged by, put together in one place.
#pragma once
#include <map>
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

// A test that could once run, and the fewest GPUs that it had: by release, GPU, packed or not, libraries that the run
// chose, and test.
using AvailabilityKey = std::pair<MachineKind, std::string>;
using Available = std::map<AvailabilityKey, int>;

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

// An older library may lack what the usual one has, so those that a run chose count as well.
AvailabilityKey availability_key(const Record& record, const std::string& test);
Available available_in(const std::vector<Record>& records);

}  // namespace recapture
