// Records of shards of one run as one.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// Writes `out`. Throws Stop(Usage) if the parts do not belong together.
void merge_records(const std::vector<std::string>& parts, const std::string& out);

}  // namespace recapture
