// What a bare CUDA context costs on this machine: nothing that tests a GPU in a process of its own can be faster.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "harness/run/layout.h"

namespace recapture::run {

// The canary three times `width` times, so many at once, on these GPUs in turn (none named: whatever is visible):
// seconds for each context. 0 if one of them failed or the user interrupted.
double seconds_per_context(const Layout& places, size_t width, const std::vector<std::string>& gpus);

}  // namespace recapture::run
