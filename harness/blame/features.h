// Which CUDA-graph features a program's processes use, from the lines that python/recapture/_features.py adds to the
// recorder's output.
#pragma once
#include <string_view>

#include "harness/compare/features.h"

namespace recapture::blame {

// `failed`: the program's exit status was not 0, so features that it did not reach are unknown.
compare::Features features_in(std::string_view report, bool failed);

}  // namespace recapture::blame
