// What all records have in common, and so what they say nothing of.
#pragma once
#include <string>

#include "harness/verdict/result_matrix.h"

namespace recapture::report {

// In one line, by the environments of the runs with a GPU: drivers, GPU architectures, the processor's architecture,
// and which of these are not on record. Empty without such a run.
std::string render_extent(const ResultMatrix& board);

}  // namespace recapture::report
