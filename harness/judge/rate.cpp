#include "harness/judge/rate.h"

#include <algorithm>
#include <cmath>

namespace recapture {

std::pair<double, double> wilson(int hits, int tries) {
  if (tries <= 0) return {0, 1};
  constexpr double kZ = 1.959963985;  // Of 95 %.
  const double n = tries, p = hits / n, z2 = kZ * kZ;
  const double centre = p + z2 / (2 * n), spread = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, (centre - spread) / (1 + z2 / n)), std::min(1.0, (centre + spread) / (1 + z2 / n))};
}

}  // namespace recapture
