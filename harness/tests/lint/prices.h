// Checks that prices name existing things: the benchmarks' Fix tests are in the catalogue, and committed prices are in
// the right place.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"

namespace recapture::lint {

// One sentence each, with its place.
std::vector<std::string> price_errors(const std::string& root, const Catalogue& catalogue);

}  // namespace recapture::lint
