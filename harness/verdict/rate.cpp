#include "harness/verdict/rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "harness/base/text.h"
#include "harness/model/release.h"
#include "harness/verdict/race_rule.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

// One run's estimate of the rate, on a scale that allows averaging, and its sampling variance.
struct Summary {
  double value = 0, variance = 0;
};

// A fixed number of tries: the logit of the share, with one half added to hits and misses (Haldane, 1955; Anscombe,
// 1956).
Summary of_tries(const RateRun& run) {
  const double hits = run.hits + 0.5, misses = run.tries - run.hits + 0.5;
  return {std::log(hits / misses), 1 / hits + 1 / misses};
}

// Tries until the k-th hit: their number is approximately gamma distributed with shape k, so its logarithm has mean
// digamma(k) - log(rate) and variance trigamma(k).
Summary of_hits(const RateRun& run) {
  constexpr double kEuler = 0.57721566490153286, kTrigammaOfOne = 1.6449340668482264;
  if (run.hits > 1000) return {std::log((run.hits - 0.5) / run.tries), 1 / (run.hits - 0.5)};
  double digamma = -kEuler, trigamma = kTrigammaOfOne;
  for (int i = 1; i < run.hits; ++i) {
    digamma += 1.0 / i;
    trigamma -= 1.0 / i / i;
  }
  return {digamma - std::log(run.tries), trigamma};
}

// Tries that the rule ended. The last hit ended them, so the others are their rate (Girshick, Mosteller and Savage,
// 1946).
Summary of_rule(const RateRun& run) {
  const int ended = run.hits >= kEnoughHits ? 1 : 0;
  return of_tries({run.hits - ended, run.tries - ended});
}

Summary summary(const RateRun& run) {
  return run.stopping == Stopping::Hits ? of_hits(run) : run.stopping == Stopping::Rule ? of_rule(run) : of_tries(run);
}

double share_of(double value, Stopping stopping) {
  return stopping == Stopping::Hits ? std::min(1.0, std::exp(value)) : 1 / (1 + std::exp(-value));
}

// Tries until a hit that reached their limit first: the rate is only known to be lower than that.
bool is_censored(const RateRun& run) { return run.stopping == Stopping::Hits && run.hits == 0; }

// The same by the rule. In a rank-sum such runs are the lowest, since all have the same limit.
bool has_no_rate(const RateRun& run) { return is_censored(run) || (run.stopping == Stopping::Rule && run.hits == 0); }

// Whether their values are on one scale.
bool are_comparable(Stopping a, Stopping b) { return (a == Stopping::Hits) == (b == Stopping::Hits); }

bool of_one_design(const std::vector<RateRun>& runs) {
  return std::ranges::all_of(runs,
                             [&](const RateRun& run) { return are_comparable(run.stopping, runs.front().stopping); });
}

// An interval of one run's rate (Wilson, 1927). By the rule, how many hits the process had that brought enough says
// little: the others would have ended the tries as well.
std::pair<double, double> interval_of(const RateRun& run, double z) {
  const double n = run.tries, z2 = z * z;
  const auto end = [&](int hits, double sign) {
    const double share = hits / n, middle = (share + z2 / 2 / n) / (1 + z2 / n);
    return middle + sign * z / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / 4 / n / n);
  };
  const int least = run.stopping == Stopping::Rule ? std::min(run.hits, kEnoughHits) : run.hits;
  return {end(least, -1), end(run.hits, 1)};
}

std::vector<RateRun> with_known_rule(std::vector<RateRun> runs) {
  std::erase_if(runs, [](const RateRun& run) { return run.stopping == Stopping::Unknown; });
  return runs;
}

// 1 if the second run's rate is the higher one, -1 if the first's is, 0 if neither is known to be.
int order_of(const RateRun& a, const RateRun& b) {
  if (is_censored(a) && is_censored(b)) return 0;
  if (is_censored(a)) return b.tries <= a.tries ? 1 : 0;
  if (is_censored(b)) return a.tries <= b.tries ? -1 : 0;
  if (a.stopping != b.stopping) {
    constexpr double kOf80Percent = 1.2815515655446004;
    const auto earlier = interval_of(a, kOf80Percent), later = interval_of(b, kOf80Percent);
    return earlier.second < later.first ? 1 : later.second < earlier.first ? -1 : 0;
  }
  const double first = summary(a).value, second = summary(b).value;
  return first < second ? 1 : first > second ? -1 : 0;
}

// A year of nights is enough for a comparison, and the exact distribution's cost grows with their cube.
std::vector<RateRun> newest_of(const std::vector<RateRun>& runs) {
  constexpr size_t kMost = 50;
  return {runs.end() - static_cast<std::ptrdiff_t>(std::min(runs.size(), kMost)), runs.end()};
}

// The share of each value of U among all ways to choose `few` of the ranks 1 to few + many.
std::vector<double> distribution_of_u(size_t few, size_t many) {
  // ways[i][u]: i of the ranks so far are chosen, with U = u.
  std::vector<std::vector<double>> ways(few + 1, std::vector<double>(few * many + 1, 0));
  ways[0][0] = 1;
  for (size_t rank = 0; rank < few + many; ++rank) {
    for (size_t i = std::min(few, rank + 1); i > 0; --i) {
      const size_t above = rank - (i - 1);  // The other ranks that are below the i-th chosen one.
      if (above > many) continue;
      for (size_t u = above; u < ways[i].size(); ++u) ways[i][u] += ways[i - 1][u - above];
    }
  }
  std::vector<double> shares = ways[few];
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace

namespace {

// What ends the tries by each rule.
struct Design {
  Stopping stopping;
  Stopping after_one_hit;  // If tries go on to the first hit after a fixed number without one.
};
constexpr std::array<Design, kStoppingRules.size()> kDesigns = {{
    {Stopping::Unknown, Stopping::Unknown},  // None
    {Stopping::Tries, Stopping::Tries},      // Captures300
    {Stopping::Tries, Stopping::Tries},      // LoaderStarts60
    {Stopping::Tries, Stopping::Tries},      // FixedCalls
    {Stopping::Tries, Stopping::Hits},       // CallsOnToTheFirst
    {Stopping::Hits, Stopping::Hits},        // SixProcesses
    {Stopping::Hits, Stopping::Hits},        // FirstFailureOr20Seconds
    {Stopping::Hits, Stopping::Hits},        // FirstFailureOr50
}};

}  // namespace

Stopping stopping_of(const TestRecord& test) {
  if (test.text("stopping") == kRaceRule) return Stopping::Rule;
  const auto rule = stopping_rule_of(test.text("stopping"));
  if (!rule) return Stopping::Unknown;
  const Design& design = kDesigns[static_cast<size_t>(*rule)];
  return test.hits() < 2 ? design.after_one_hit : design.stopping;
}

double t_quantile(size_t degrees) {
  constexpr double z = 1.959963984540054;
  const double n = static_cast<double>(std::max<size_t>(degrees, 1)), z2 = z * z;
  return z + z * (z2 + 1) / 4 / n + z * ((5 * z2 + 16) * z2 + 3) / 96 / n / n +
         z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384 / n / n / n +
         z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160 / n / n / n / n;
}

std::optional<Rate> rate_of(const std::vector<RateRun>& all) {
  const std::vector<RateRun> runs = with_known_rule(all);
  if (runs.size() < kFewestRuns || !of_one_design(runs) || std::ranges::any_of(runs, has_no_rate)) return std::nullopt;
  double sum = 0, squares = 0, within = 0;
  for (const RateRun& run : runs) sum += summary(run).value;
  const double n = static_cast<double>(runs.size()), mean = sum / n;
  for (const RateRun& run : runs) {
    const Summary of_run = summary(run);
    squares += (of_run.value - mean) * (of_run.value - mean);
    within += of_run.variance;
  }
  // Runs that agree by chance have at least the sampling variance.
  const double variance = std::max(squares / (n - 1), within / n);
  const double spread = t_quantile(runs.size() - 1) * std::sqrt(variance / n);
  const Stopping stopping = runs.front().stopping;
  return Rate{share_of(mean, stopping), share_of(mean - spread, stopping), share_of(mean + spread, stopping)};
}

namespace {

enum class Trend { Same, Higher, Lower };

// Nothing if either set is too small.
std::optional<Trend> trend_of(const std::vector<RateRun>& all_before, const std::vector<RateRun>& all_after) {
  constexpr double kLevel = 0.01;
  const auto before = newest_of(with_known_rule(all_before)), after = newest_of(with_known_rule(all_after));
  if (std::min(before.size(), after.size()) < kFewestRuns || !of_one_design(before) || !of_one_design(after) ||
      !are_comparable(before.front().stopping, after.front().stopping)) {
    return std::nullopt;
  }
  size_t above = 0, below = 0;  // Ties count as neither, which can only make a change harder to claim.
  for (const RateRun& a : before) {
    for (const RateRun& b : after) {
      const int order = order_of(a, b);
      above += order > 0 ? 1 : 0;
      below += order < 0 ? 1 : 0;
    }
  }
  const std::vector<double> shares = distribution_of_u(before.size(), after.size());
  const size_t u = shares.size() - 1 - std::max(above, below);
  const double p = 2 * std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(u) + 1, 0.0);
  return p >= kLevel ? Trend::Same : above > below ? Trend::Higher : Trend::Lower;
}

}  // namespace

std::optional<bool> changed(const std::vector<RateRun>& before, const std::vector<RateRun>& after) {
  const auto trend = trend_of(before, after);
  return trend ? std::optional(*trend != Trend::Same) : std::nullopt;
}

bool is_surely_higher(const std::vector<RateRun>& before, const std::vector<RateRun>& after) {
  if (const auto trend = trend_of(before, after)) return *trend == Trend::Higher;
  constexpr double kOf999PerMille = 3.2905267314919255;
  double earlier = 0, later = 1;  // The ends of the intervals that face each other.
  for (const auto* runs : {&before, &after}) {
    if (runs->empty()) return false;
    for (const RateRun& run : *runs) {
      if (run.stopping == Stopping::Hits || run.tries < 1) return false;
      const auto [low, high] = interval_of(run, kOf999PerMille);
      if (runs == &before) earlier = std::max(earlier, high);
      if (runs == &after) later = std::min(later, low);
    }
  }
  constexpr double kDecisive = 10;
  return later > kDecisive * earlier;
}

RateSummary summary_of(const std::vector<RateRun>& runs) {
  const auto has_hit = [](const RateRun& run) { return run.hits > 0; };
  RateSummary summary;
  summary.runs = runs.size();
  summary.seen = static_cast<size_t>(std::ranges::count_if(runs, has_hit));
  summary.rate = rate_of(runs);
  if (summary.rate) return summary;
  const std::vector<RateRun> with_rule = with_known_rule(runs);
  summary.without_rule = runs.size() - with_rule.size();
  summary.censored = static_cast<size_t>(std::ranges::count_if(with_rule, has_no_rate));
  if (with_rule.size() < kFewestRuns) {
    summary.gap = RateGap::TooFewRuns;
    summary.needed = kFewestRuns - with_rule.size();
  } else {
    summary.gap = of_one_design(with_rule) ? RateGap::ReachedLimit : RateGap::DifferentRules;
  }
  return summary;
}

std::optional<RateRun> rate_run(const Record& record, const TestRecord& test, const Rules& rules) {
  if (record.broken() != Break::Nothing || record.is_shard() || !test.has_rate()) return std::nullopt;
  const Result result = classify(kind_of_id(test.id()), test);
  if (result != Result::Reproduced && result != Result::Unseen) return std::nullopt;
  if (rules.is_stale_test(record, test.id())) return std::nullopt;
  return RateRun{test.hits(), test.tries(), stopping_of(test)};
}

}  // namespace recapture
