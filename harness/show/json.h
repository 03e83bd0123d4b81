// Verdicts for programs: an array with one object a test.
#pragma once
#include <vector>

#include "harness/judge/board.h"

namespace recapture {

Json as_json(const Judged& judged);

}  // namespace recapture
