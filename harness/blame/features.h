// Which features of graphs the processes of a program use, by what python/recapture/_features.py wrote among the
// recorder's lines.
#pragma once
#include <string_view>

#include "harness/compare/features.h"

namespace recapture::blame {

// `failed`: the program's exit status was not 0. What it would have used is not known then.
compare::Features features_in(std::string_view report, bool failed);

}  // namespace recapture::blame
