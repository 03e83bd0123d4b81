// Whether what cases/expectations.toml expects is needed, shown and free of contradiction.
#pragma once
#include <string>
#include <vector>

#include "harness/model/expectations.h"
#include "harness/model/record.h"

namespace recapture::lint {

// One message each: unknown tests, two expectations that can apply at once, ones that no release or record needs, a
// record they name that does not show it, an open question without two confirmations. Empty is good. `reports` is the
// folder below which records are named.
std::vector<std::string> expectation_errors(const std::vector<Expectation>& all, const std::vector<std::string>& matrix,
                                            const std::vector<Record>& records, const std::string& reports);

}  // namespace recapture::lint
