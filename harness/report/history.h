// Histories, as text and JSON.
#pragma once
#include <string>
#include <vector>

#include "harness/timeline/history.h"

namespace recapture::report {

// A test's machines, one below the other.
std::string render_text(const std::vector<timeline::TestHistory>& all);

// An object for each test on each kind of machine, with every outcome and every change. `records` is the records'
// folder.
Json render_json(const std::vector<timeline::TestHistory>& all, const std::string& records);

}  // namespace recapture::report
