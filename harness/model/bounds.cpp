#include "harness/model/bounds.h"

#include "harness/model/release.h"

namespace recapture {

std::string bounds_of(const Expectation& expectation) {
  std::string oldest, newest;
  for (const std::string& record : expectation.records) {  // "2.11.0/nvidia-h200.jsonl"
    const std::string release = record.substr(0, record.find('/'));
    if (!is_version(release)) continue;
    if (oldest.empty() || older(release, oldest)) oldest = release;
    if (newest.empty() || older(newest, release)) newest = release;
  }
  return oldest == newest ? oldest : oldest + " to " + newest;
}

}  // namespace recapture
