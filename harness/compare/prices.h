// Prices of remedies on the two sides of a comparison.
#pragma once
#include <optional>

#include "harness/compare/compare.h"
#include "harness/model/prices.h"

namespace recapture::compare {

// The prices measured on a side's machine, from the files beside its records; nothing if there are none. Throws
// ExitError(Usage) for a file that is not one.
std::optional<Prices> read_side_prices(const Side& side);

// Adds changed prices to the comparison, or to its notes why they cannot be compared.
void compare_prices(const std::optional<Prices>& before, const std::optional<Prices>& now, Comparison& comparison);

}  // namespace recapture::compare
