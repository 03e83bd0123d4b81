// The runs below a folder, and what they have of some cases. Other lines are not read: of ten thousand runs one case's
// take seconds, and all lines would take minutes and gigabytes.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::timeline {

struct Run {
  std::string path;  // From the folder.
  std::string started, revision;
  std::vector<std::string> ids;  // The run's own; of a merged record those of all shards.
  // Of those cases alone. Its environment lacks what differs from night to night, which stands above.
  Record record;
};

struct BadRecord {
  std::string path, reason;
};

struct Runs {
  std::vector<Run> runs;       // Sorted by path.
  std::vector<BadRecord> bad;  // What is called a record and is none, or cannot be read.
};

// Of no case only environments and plans, which are whole then. Throws ExitError where the folder itself cannot be
// read.
Runs runs_below(const std::string& folder, const std::set<std::string>& cases);

// What --gpu can name: "; GPUs on record: NVIDIA H100 80GB HBM3, NVIDIA H200, none".
std::string gpus_on_record(const std::vector<Run>& runs);

}  // namespace recapture::timeline
