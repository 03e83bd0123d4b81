// Merges the records of a run's shards.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// Writes `out` and returns a sentence for each reason why the run is incomplete: a shard that is missing, did not end
// normally, or lacks a planned test. Throws ExitError(Usage) if the parts are of different runs or contradict each
// other.
std::vector<std::string> merge_records(const std::vector<std::string>& parts, const std::string& out);

}  // namespace recapture
