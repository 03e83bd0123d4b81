// What the times of a price mean: how much longer the work takes with the remedy, and whether that is another price
// than before. A pair is the unit, for what disturbs a repetition disturbs both of its times.
#pragma once
#include <string>
#include <vector>

#include "harness/model/prices.h"

namespace recapture {

struct Price {
  double without = 0, with = 0;         // Microseconds, each the median.
  double ratio = 1, low = 1, high = 1;  // With to without: the mean of the pairs' logarithms, and its 95 % interval.
  double smallest = 1, largest = 1;     // The spread: of all pairs' ratios.
};

// Of a line that was measured.
Price price_of(const PriceLine& line);

// "13.0 µs instead of 6.7 µs (6.3 µs more), 1.94 times as long (1.90 to 1.98)"; or why there is none.
std::string describe(const PriceLine& line);
Json render_json(const PriceLine& line);

// With fewer pairs two spreads can lie apart by chance: with eight on either side once in six thousand times.
inline constexpr size_t kFewestPairs = 8;
// A price that differs by less is the same, however narrow its spread: of a single run, what differs between two
// processes is not in it.
inline constexpr double kLeastChange = 1.05;

// Whether all pairs now lie on one side of all pairs before, and the ratio differs by kLeastChange. False where either
// was not measured, or with too few pairs.
bool changed(const PriceLine& before, const PriceLine& now);

// Of each kind of machine one, in the order of the releases: the pairs of all runs there, as far as the newest's
// benchmarks made them. Two runs on one machine differ by more than the pairs of either, so both are the spread.
// Lines stand in the order of their words, numbers in them by their size.
std::vector<Prices> prices_by_machine(std::vector<Prices> all);

// Those of one test.
std::vector<const PriceLine*> prices_of(const Prices& prices, const std::string& test);

}  // namespace recapture
