// Whether prices name what there is: the benchmarks' Fix tests in the catalogue, and committed prices where they
// belong.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"

namespace recapture::lint {

// One sentence each, with its place.
std::vector<std::string> price_errors(const std::string& root, const Catalogue& catalogue);

}  // namespace recapture::lint
