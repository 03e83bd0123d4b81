// Prices of remedies on the two sides of a comparison.
#pragma once
#include <optional>

#include "harness/compare/compare.h"
#include "harness/model/prices.h"

namespace recapture::compare {

// What was measured where a side ran, from the files beside its records; nothing where there is none. Throws
// ExitError(Usage) for a file that is none.
std::optional<Prices> read_side_prices(const Side& side);

// Adds to the comparison which prices changed, or to its head why they cannot be compared.
void compare_prices(const std::optional<Prices>& before, const std::optional<Prices>& now, Comparison& comparison);

}  // namespace recapture::compare
