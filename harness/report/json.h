// Verdicts as JSON: an array with one object for each test.
#pragma once
#include <vector>

#include "harness/store/result_matrix.h"

namespace recapture::report {

Json render_json(const JudgedRun& judged);

}  // namespace recapture::report
