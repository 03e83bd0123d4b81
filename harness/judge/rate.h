// How far a rate can be trusted.
#pragma once
#include <utility>

namespace recapture {

// The 95 % Wilson interval of `hits` in `tries`, each bound from 0 to 1.
std::pair<double, double> wilson(int hits, int tries);

}  // namespace recapture
