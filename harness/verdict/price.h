// Evaluates the times of a price: how much longer the work takes with the remedy, and whether that changed. A pair is
// the unit, since a disturbance affects both of its times. The control compares the work with itself: if that differs,
// the times contain more than the remedy, and the price is not published.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/model/prices.h"

namespace recapture {

// Of pairs: the mean of their logarithms, with its 95 % interval.
struct Ratio {
  double mean = 1, low = 1, high = 1;
};

struct Price {
  double without = 0, with = 0;      // Microseconds, medians.
  Ratio ratio;                       // With to without.
  double smallest = 1, largest = 1;  // The spread: the range of the pairs' ratios.
  double cost = 0;                   // Microseconds, the median of the pairs' differences; negative for a gain.
  double least_cost = 0, greatest_cost = 0;
};

// For a line that was measured.
Price price_of(const PriceLine& line);

// Whether there is a control, and its interval contains 1.
bool is_published(const PriceLine& line);

// With fewer pairs two spreads can be disjoint by chance: with eight on either side once in six thousand times.
inline constexpr size_t kFewestPairs = 8;
// A cost that differs by less is the same, however narrow its spread: a single run does not contain the variation
// between processes. As a share of the greater cost, and of the work without the remedy.
inline constexpr double kLeastChange = 0.05, kLeastShareOfWork = 0.01;

// Whether the costs of all pairs now lie on one side of those of all pairs before, and differ by that much. A cost is
// in microseconds: if the work becomes faster, the same remedy has a greater ratio and costs the same. False if either
// is not published, or has too few pairs.
bool changed(const PriceLine& before, const PriceLine& now);

// One for each kind of machine, in the order of the releases: the pairs of all runs there that used the newest run's
// benchmarks. Two runs on one machine differ by more than the pairs of either, so the spread covers both. Lines are
// sorted by words, and by the numbers in them.
std::vector<Prices> prices_by_machine(std::vector<Prices> all);
// The same of all files below a folder. Calls `unread` with the reason for each file that cannot be read.
std::vector<Prices> read_all_prices(const std::string& folder, const std::function<void(const char* reason)>& unread);

// The lines of one test that are published, or were not measured.
std::vector<const PriceLine*> prices_of(const Prices& prices, const std::string& test);

}  // namespace recapture
