#include "harness/words/measurement.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/base/text.h"

namespace recapture {
namespace {

std::string percent(double share) {
  return share < 0.1 ? fmt::format("{:.2g}", 100 * share) : fmt::format("{:.0f}", 100 * share);
}

// Three digits, in a suitable unit.
std::string time_words(double us) {
  const bool is_long = us >= 1000;
  const double value = is_long ? us / 1000 : us;
  return fmt::format("{:.{}f} {}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, is_long ? "ms" : "µs");
}

}  // namespace

std::string describe(const std::vector<RateRun>& runs) {
  const RateSummary summary = summary_of(runs);
  std::string words = fmt::format("seen in {} of {}; ", summary.seen, plural(summary.runs, "run"));
  switch (summary.gap) {
    case RateGap::None:
      return words + fmt::format("{} % of the tries, {} to {} %", percent(summary.rate->share),
                                 percent(summary.rate->low), percent(summary.rate->high));
    case RateGap::TooFewRuns:
      words += fmt::format("insufficient data for a rate: {} more run{} needed", summary.needed,
                           summary.needed == 1 ? " is" : "s are");
      if (summary.without_rule == 0) return words;
      return words + fmt::format("; what ended the tries of {} is not recorded", plural(summary.without_rule, "run"));
    case RateGap::DifferentRules:
      return words + "insufficient data for a rate: different rules ended the tries of these runs";
    case RateGap::ReachedLimit:
      break;
  }
  return words + fmt::format("insufficient data for a rate: {} reached {} limit before the first hit",
                             plural(summary.censored, "run"), summary.censored == 1 ? "its" : "their");
}

std::string describe(const PriceLine& line) {
  if (!line.why_not.empty()) return "not measured: " + line.why_not;
  const Price price = price_of(line);
  const double more = price.with - price.without;
  const bool can_be_told = price.ratio.low > 1 || price.ratio.high < 1;
  return fmt::format("{} instead of {}{}, {:.2f} times as long ({:.2f} to {:.2f})", time_words(price.with),
                     time_words(price.without),
                     can_be_told ? fmt::format(" ({} {})", time_words(std::abs(more)), more < 0 ? "less" : "more")
                                 : ", no measurable difference",
                     price.ratio.mean, price.ratio.low, price.ratio.high);
}

Json render_json(const PriceLine& line) {
  Json json = {{"fixes", line.fixes}, {"what", line.what}, {"words", describe(line)}};
  if (!line.why_not.empty()) return json;
  const Price price = price_of(line);
  json.update({{"clock", line.clock},
               {"pairs", line.with.size()},
               {"without_us", price.without},
               {"with_us", price.with},
               {"ratio", price.ratio.mean},
               {"low", price.ratio.low},
               {"high", price.ratio.high},
               {"cost_us", price.cost},
               {"smallest", price.smallest},
               {"largest", price.largest}});
  return json;
}

}  // namespace recapture
