// Whether a documented signature is exact: it must not match what another case shows.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/rules.h"

namespace recapture::lint {

// Signatures that also match what another case saw although that is another failure. Empty is good. Cases that are
// stale by the rules are left out, since their signatures may have changed too.
std::vector<std::string> loose_signatures(const std::vector<Record>& records, const Rules& rules);

}  // namespace recapture::lint
