// What remedies cost on one machine, as `tools/prices --remedies` measured it. Facts, as in a record: each pair of
// times. A file beside that machine's records, reports/<release>/<machine>.prices, one JSON object a line:
//
//   {"prices":1,"release":"2.11.0","gpu":…, …}    what it was measured on, by which code ("hash")
//   {"price":["case.FixName", …],"what":"a replay of 20 kernels","clock":"gpu","without":[6.7, …],"with":[13.0, …]}
//
// Times are in microseconds, and the n-th without the remedy makes a pair with the n-th with it. In the place of times
// there may be "why_not".
#pragma once
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/model/environment.h"

namespace recapture {

inline constexpr const char* kPricesExtension = ".prices";

struct PriceLine {
  std::vector<std::string> fixes;  // Tests whose remedy it is: "unregistered_generator.FixRegisterBeforeCapture".
  std::string what, clock;         // The work in words; "gpu" or "host".
  std::vector<double> without, with;
  std::string why_not;  // "" where it was measured.
};

struct Prices {
  std::string path;
  Environment environment;
  std::vector<PriceLine> lines;

  std::string env(const char* key) const;  // As it may be shown; "" where it is absent or no text.
  std::string machine() const;             // "2.11.0, NVIDIA H200"
};

// Throws ExitError(Usage) with file and line where it is not one.
Prices read_prices(const std::string& path);

// The files of prices below a folder, sorted.
std::vector<std::string> prices_below(const std::string& folder);

}  // namespace recapture
