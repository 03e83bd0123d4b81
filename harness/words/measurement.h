// The sentences about what was measured: how often a race occurs, and what a fix costs.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/price.h"
#include "harness/verdict/rate.h"

namespace recapture {

// A race's rate: "seen in 5 of 5 runs; 34 % of the tries, 28 to 41 %", or that there are too few runs and how many more
// are needed.
std::string describe(const std::vector<RateRun>& runs);

// "13.0 µs instead of 6.7 µs (6.3 µs more), 1.94 times as long (1.90 to 1.98)"; or why there is none.
std::string describe(const PriceLine& line);
Json render_json(const PriceLine& line);

}  // namespace recapture
