#include "harness/verdict/price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/verdict/rate.h"

namespace recapture {
namespace {

double median(std::vector<double> times) {
  std::ranges::sort(times);
  const size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
}

std::pair<double, double> range_of(const std::vector<double>& values) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  return {*least, *greatest};
}

// Needs at least two pairs.
Ratio ratio_of(const std::vector<double>& without, const std::vector<double>& other) {
  std::vector<double> logs;
  for (size_t i = 0; i < other.size(); ++i) logs.push_back(std::log(other[i] / without[i]));
  const auto pairs = static_cast<double>(logs.size());
  double mean = 0, squares = 0;
  for (const double log : logs) mean += log / pairs;
  for (const double log : logs) squares += (log - mean) * (log - mean);
  const double half = t_quantile(logs.size() - 1) * std::sqrt(squares / (pairs - 1) / pairs);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

MachineId measured_on(const Prices& prices) {
  const MachineId machine = prices.environment.machine;
  MachineId id;
  id.gpu = machine.gpu;
  id.driver = machine.driver;
  id.runtime = machine.runtime;
  return id;
}

// Adds pairs of the same work; lines that only the older run has are kept as well.
void add_pairs(std::vector<PriceLine> older_run, std::vector<PriceLine>& lines) {
  for (PriceLine& old : older_run) {
    const auto same = std::ranges::find_if(lines, [&](const PriceLine& line) {
      return line.what == old.what && line.fixes == old.fixes && line.clock == old.clock;
    });
    if (same == lines.end()) {
      lines.push_back(std::move(old));
    } else if (old.why_not.empty()) {
      same->why_not.clear();
      same->without.insert(same->without.end(), old.without.begin(), old.without.end());
      same->with.insert(same->with.end(), old.with.begin(), old.with.end());
      same->control.insert(same->control.end(), old.control.begin(), old.control.end());
    }
  }
}

}  // namespace

Price price_of(const PriceLine& line) {
  Price price{median(line.without), median(line.with), ratio_of(line.without, line.with)};
  std::vector<double> ratios, costs;
  for (size_t i = 0; i < line.with.size(); ++i) {
    ratios.push_back(line.with[i] / line.without[i]);
    costs.push_back(line.with[i] - line.without[i]);
  }
  std::tie(price.smallest, price.largest) = range_of(ratios);
  std::tie(price.least_cost, price.greatest_cost) = range_of(costs);
  price.cost = median(costs);
  return price;
}

bool is_published(const PriceLine& line) {
  if (!line.why_not.empty() || line.control.empty()) return false;
  const Ratio control = ratio_of(line.without, line.control);
  return control.low <= 1 && 1 <= control.high;
}

bool changed(const PriceLine& before, const PriceLine& now) {
  if (!is_published(before) || !is_published(now)) return false;
  if (std::min(before.with.size(), now.with.size()) < kFewestPairs) return false;
  const Price then = price_of(before), later = price_of(now);
  const bool is_apart = later.least_cost > then.greatest_cost || later.greatest_cost < then.least_cost;
  const double change = std::abs(later.cost - then.cost);
  return is_apart && change >= kLeastChange * std::max(std::abs(then.cost), std::abs(later.cost)) &&
         change >= kLeastShareOfWork * std::min(then.without, later.without);
}

std::vector<Prices> prices_by_machine(std::vector<Prices> all) {
  std::ranges::sort(all, [](const Prices& a, const Prices& b) {
    return std::tuple(a.environment.release, measured_on(a), b.environment.started, b.path) <
           std::tuple(b.environment.release, measured_on(b), a.environment.started, a.path);
  });
  std::vector<Prices> machines;
  std::string last;  // Skips copies of a run.
  for (Prices& run : all) {
    const std::string began = run.environment.started;
    const bool is_another = machines.empty() || machines.back().env("release") != run.env("release") ||
                            measured_on(machines.back()) != measured_on(run);
    if (is_another) {
      machines.push_back(std::move(run));
    } else if (began != last && machines.back().env("hash") == run.env("hash")) {
      add_pairs(std::move(run.lines), machines.back().lines);
    }
    last = began;
  }
  // They were measured in random order. Numbers sort by value: 100 comes after 2.
  for (Prices& machine : machines) {
    std::ranges::sort(machine.lines, [](const PriceLine& a, const PriceLine& b) {
      const int order = strverscmp(a.what.c_str(), b.what.c_str());
      return order < 0 || (order == 0 && a.fixes < b.fixes);
    });
  }
  return machines;
}

std::vector<const PriceLine*> prices_of(const Prices& prices, const std::string& test) {
  std::vector<const PriceLine*> lines;
  for (const PriceLine& line : prices.lines) {
    const bool is_its = contains(line.fixes, test);
    if (is_its && (is_published(line) || !line.why_not.empty())) lines.push_back(&line);
  }
  return lines;
}

std::vector<Prices> read_all_prices(const std::string& folder, const std::function<void(const char* reason)>& unread) {
  std::vector<Prices> all;
  for (const std::string& path : prices_below(folder)) {
    try {
      all.push_back(read_prices(path));
    } catch (const ExitError& error) {
      unread(error.what());
    }
  }
  return prices_by_machine(std::move(all));
}

}  // namespace recapture
