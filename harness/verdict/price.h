// What the times of a price mean: how much longer the work takes with the remedy, and whether that is another price
// than before. A pair is the unit, for what disturbs a repetition disturbs both of its times. The work against itself
// is the control: where that differs, something other than the remedy is in the times, and the price is not published.
#pragma once
#include <string>
#include <vector>

#include "harness/model/prices.h"

namespace recapture {

// Of pairs: the mean of their logarithms, and its 95 % interval.
struct Ratio {
  double mean = 1, low = 1, high = 1;
};

struct Price {
  double without = 0, with = 0;      // Microseconds, each the median.
  Ratio ratio;                       // With to without.
  double smallest = 1, largest = 1;  // The spread: of all pairs' ratios.
  double cost = 0;                   // Microseconds, the median of the pairs' differences; below 0 it is a gain.
  double least_cost = 0, greatest_cost = 0;
};

// Of a line that was measured.
Price price_of(const PriceLine& line);

// Whether it was measured with a control whose interval contains 1.
bool is_published(const PriceLine& line);

// "13.0 µs instead of 6.7 µs (6.3 µs more), 1.94 times as long (1.90 to 1.98)"; or why there is none.
std::string describe(const PriceLine& line);
Json render_json(const PriceLine& line);

// With fewer pairs two spreads can lie apart by chance: with eight on either side once in six thousand times.
inline constexpr size_t kFewestPairs = 8;
// A cost that differs by less is the same, however narrow its spread: of a single run, what differs between two
// processes is not in it. As a share of the greater cost, and of the work without the remedy.
inline constexpr double kLeastChange = 0.05, kLeastShareOfWork = 0.01;

// Whether the costs of all pairs now lie on one side of those of all pairs before, and differ by that much. A cost is
// in microseconds: where the work itself becomes faster, the same remedy has a greater ratio and costs the same. False
// where either is not published, or has too few pairs.
bool changed(const PriceLine& before, const PriceLine& now);

// Of each kind of machine one, in the order of the releases: the pairs of all runs there, as far as the newest's
// benchmarks made them. Two runs on one machine differ by more than the pairs of either, so both are the spread.
// Lines stand in the order of their words, numbers in them by their size.
std::vector<Prices> prices_by_machine(std::vector<Prices> all);

// Those of one test that are published, or were not measured.
std::vector<const PriceLine*> prices_of(const Prices& prices, const std::string& test);

}  // namespace recapture
