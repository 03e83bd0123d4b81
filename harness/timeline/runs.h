// The runs below a folder, with the lines of some cases only: one case of ten thousand runs takes seconds, while all
// lines would take minutes and gigabytes.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::timeline {

struct BadRecord {
  std::string path, reason;
};

struct Runs {
  std::vector<Record> records;  // By path, which is relative to the folder.
  std::vector<BadRecord> bad;   // Files named like records that are invalid or unreadable.
};

// Without cases, reads only environments and complete plans. Throws ExitError if the folder itself is unreadable.
Runs runs_below(const std::string& folder, const std::set<std::string>& cases);

// Values for --gpu: "; GPUs on record: NVIDIA H100 80GB HBM3, NVIDIA H200, none".
std::string gpus_on_record(const std::vector<Record>& records);

}  // namespace recapture::timeline
