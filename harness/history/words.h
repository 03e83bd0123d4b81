// Histories for people and for programs.
#pragma once
#include <string>
#include <vector>

#include "harness/history/series.h"

namespace recapture {

// A test's machines, one below the other.
std::string as_text(const std::vector<Series>& all);

// An object for each test on each kind of machine, with every outcome and every turn. `records` is where those lie.
Json as_json(const std::vector<Series>& all, const std::string& records);

}  // namespace recapture
