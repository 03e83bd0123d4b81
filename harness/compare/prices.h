// Prices of remedies on the two sides of a comparison.
#pragma once
#include "harness/compare/compare.h"

namespace recapture::compare {

// Looks beside the records of either side, for prices of its release on the same machine, and adds to the comparison
// which of them changed, or in its head why they cannot be compared. Throws ExitError(Usage) for a file that is none.
void compare_prices(const Side& from, const Side& to, Comparison& comparison);

}  // namespace recapture::compare
