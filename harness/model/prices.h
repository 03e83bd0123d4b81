// The cost of remedies on one machine, as `tools/prices --remedies` measured it. All times, no summary. A file beside
// that machine's records, reports/<release>/<machine>.prices, one JSON object a line:
//
//   {"prices":2,"release":"2.11.0","gpu":…, …}    what it was measured on, by which code ("hash")
//   {"price":["case.FixName", …],"what":"a replay of 20 kernels","clock":"gpu","without":[6.7, …],"with":[13.0, …],
//    "control":[6.7, …]}
//   {"stage":"capture","nodes":100,"times":[…]}   how long a stage of a graph's life takes, which tools/prices prints
//
// Times are in microseconds. The n-th entries belong together: the work without the remedy, with it, and without it
// again as the control. There may be "why_not" instead of times. Format 1 has neither controls nor stages.
#pragma once
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/model/environment.h"

namespace recapture {

inline constexpr const char* kPricesExtension = ".prices";

struct PriceLine {
  std::vector<std::string> fixes;  // Tests with this remedy: "unregistered_generator.FixRegisterBeforeCapture".
  std::string what, clock;         // The work in words; "gpu" or "host".
  std::vector<double> without, with;
  std::string why_not;               // "" if it was measured.
  std::vector<double> control = {};  // Empty in format 1.
};

struct Prices {
  std::string path;
  Environment environment;
  std::vector<PriceLine> lines;

  std::string env(const char* key) const;  // Escaped; "" if absent or not a string.
  std::string machine() const;             // "2.11.0, NVIDIA H200"
};

// Throws ExitError(Usage) with file and line if it is not such a file.
Prices read_prices(const std::string& path);

// The files of prices below a folder, sorted.
std::vector<std::string> prices_below(const std::string& folder);

}  // namespace recapture
