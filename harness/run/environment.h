// What a run is made on: the first line of its record.
#pragma once
#include <string>

#include "harness/record/record.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/run/places.h"
#include "harness/run/run.h"

namespace recapture {

struct Surroundings {
  Json environment;
  Anonymous anonymous;  // Hides this machine's folders.
};

// Asks a case binary for its LibTorch, git for the revision, and the machine for the rest. Throws Stop(Infrastructure)
// where the binary does not answer.
Surroundings surroundings_of(const Places& places, const RunOptions& options, const Machine& machine,
                             const std::string& binary);

}  // namespace recapture
