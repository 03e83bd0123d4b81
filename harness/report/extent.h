// What all records have in common: the limits of what they show.
#pragma once
#include <string>

#include "harness/store/result_matrix.h"

namespace recapture::report {

// One line from the environments of the runs with a GPU: drivers, GPU architectures, the processor's architecture, and
// which of these have no records. Empty without such a run.
std::string render_extent(const ResultMatrix& board);

}  // namespace recapture::report
