// Checks that a documented signature is exact: it must not match another case's observation.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"

namespace recapture::lint {

// Signatures that also match another case's observation of a different failure; empty if there is none. Stale cases are
// left out, since their signatures may have changed too.
std::vector<std::string> loose_signatures(const std::vector<Record>& records, const Rules& rules);

}  // namespace recapture::lint
