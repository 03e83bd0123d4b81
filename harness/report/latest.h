// The titles of machines, and the counts of their operators.
#pragma once
#include <string>
#include <vector>

#include "harness/store/latest.h"

namespace recapture::report {

// "LibTorch 2.11.0, NVIDIA H200"
std::string title_of(const OnMachine& machine);

// The same with the driver, the CUDA runtime, packed or not, and the date of one of its records.
std::string title_of(const OnMachine& machine, const Record& record);

// "583 captured, 102 refused": counts of operators' rows, in one line; empty if there are none.
std::string render_operator_counts(const std::vector<const TestVerdict*>& rows);
std::string render_operator_counts(const std::vector<Latest>& operators);

}  // namespace recapture::report
