#include "harness/model/bounds.h"

#include "harness/model/release.h"

namespace recapture {

std::string bounds_of(const Expectation& expectation) {
  Release oldest, newest;
  for (const std::string& record : expectation.records) {  // "2.11.0/nvidia-h200.jsonl"
    const Release release(record.substr(0, record.find('/')));
    if (!release.is_version()) continue;
    if (oldest.empty() || release.is_older_than(oldest)) oldest = release;
    if (newest.empty() || newest.is_older_than(release)) newest = release;
  }
  return oldest == newest ? oldest.name() : oldest.name() + " to " + newest.name();
}

}  // namespace recapture
