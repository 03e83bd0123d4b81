// How the page and the tables show a verdict, besides its text.
#pragma once
#include <string_view>
#include <vector>

#include "harness/verdict/verdict.h"

namespace recapture::report {

// In one line, for the legend of reports/README.md.
std::string_view meaning_of(Verdict verdict);

// Whether another run is needed for a result.
bool is_incomplete(Verdict verdict);

// For a narrow column; "" for a cell that stays empty.
std::string_view letter_of(Verdict verdict);

// The verdict to show for several; there must be at least one.
Verdict worst_of(const std::vector<Verdict>& verdicts);

}  // namespace recapture::report
