// The records that a person has marked as a baseline: good.txt in the folder of the records.
#pragma once
#include <set>
#include <string>

namespace recapture {

// The paths of the marked records, below `records`.
std::set<std::string> baselines_below(const std::string& records);

// Marks a record below `records`, and returns its path there. Throws ExitError(Usage) if it is not complete.
std::string mark_baseline(const std::string& path, const std::string& records);

}  // namespace recapture
