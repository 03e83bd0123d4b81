// Checks that the entries of cases/expectations.toml are needed, shown by records and free of contradiction.
#pragma once
#include <string>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/model/record.h"

namespace recapture::lint {

// One message for each error; empty if there is none. Errors are: an unknown test, two expectations that can apply at
// once, one that no release or record needs, a named record that does not show it, an open question without two
// confirmations. Records are named below the folder `reports`.
std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<std::string>& matrix,
                                            const std::vector<Record>& records, const std::string& reports);

}  // namespace recapture::lint
