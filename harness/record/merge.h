// Records of shards of one run as one.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// Writes `out` and gives a sentence for each thing that keeps it from being the whole run: a shard that is not among
// the parts, did not come to its end, or lacks a test of its plan. Throws ExitError(Usage) if the parts do not belong
// together, or contradict each other.
std::vector<std::string> merge_records(const std::vector<std::string>& parts, const std::string& out);

}  // namespace recapture
