#include "harness/model/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/reason.h"

namespace recapture {
namespace {

std::vector<double> times_in(const Json& line, const char* key) {
  std::vector<double> times;
  for (const Json& time : line.at(key)) {
    const double us = time.is_number() ? time.get<double>() : 0;
    if (!std::isfinite(us) || us <= 0)
      throw std::runtime_error(fmt::format("'{}' has a value that is not a time", key));
    times.push_back(us);
  }
  return times;
}

PriceLine line_of(const Json& json, bool has_control) {
  PriceLine line;
  for (const Json& fix : json.at("price")) line.fixes.push_back(escape_control(fix.get<std::string>()));
  line.what = escape_control(text_at(json, "what"));
  line.clock = text_at(json, "clock");
  line.why_not = escape_control(text_at(json, "why_not"));
  if (line.fixes.empty() || line.what.empty()) throw std::runtime_error("a price without a remedy or without its work");
  if (!line.why_not.empty()) return line;
  if (line.clock != "gpu" && line.clock != "host") throw std::runtime_error("its clock is neither gpu nor host");
  line.without = times_in(json, "without");
  line.with = times_in(json, "with");
  if (has_control) line.control = times_in(json, "control");
  if (line.without.size() != line.with.size() || line.with.size() < 2) {
    throw std::runtime_error("its times are not pairs, or are fewer than two");
  }
  if (has_control && line.control.size() != line.with.size()) {
    throw std::runtime_error("it has another number of controls than of pairs");
  }
  return line;
}

}  // namespace

std::string Prices::env(const char* key) const { return escape_control(text_at(environment.json(), key)); }
std::string Prices::machine() const { return env("release") + ", " + env("gpu"); }

Prices read_prices(const std::string& path) {
  Prices prices{path, {}, {}};
  const std::string text = unpacked_contents_of(path);
  int number = 1, format = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = text.find('\n', at);
    try {
      if (end == std::string::npos) throw std::runtime_error("it is cut");
      Json json = parse_json(std::string_view(text).substr(at, end - at));
      if (number > 1) {
        if (format > 1 && json.is_object() && json.contains("stage")) {
          if (text_at(json, "why_not").empty()) times_in(json, "times");
        } else {
          prices.lines.push_back(line_of(json, format > 1));
        }
      } else {
        if (json.is_object()) format = int_at(json, "prices").value_or(0);
        if (format != 1 && format != 2) throw std::runtime_error("it does not begin with them");
        prices.environment = std::move(json);
      }
    } catch (const std::exception& e) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}:{}: not prices: {}", escape_control(path), number, escape_control(reason_of(e))));
    }
    at = end + 1;
  }
  if (prices.lines.empty()) throw ExitError(Exit::Usage, escape_control(path) + ": has no prices");
  return prices;
}

std::vector<std::string> prices_below(const std::string& folder) {
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.ends_with(kPricesExtension) || path.ends_with(kPricesExtension + std::string(".gz"))) {
        paths.push_back(path);
      }
    }
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace recapture
