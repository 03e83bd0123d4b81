// How the page and the tables show a verdict beside its text.
#pragma once
#include <string_view>
#include <vector>

#include "harness/verdict/verdict.h"

namespace recapture::report {

// In one line, for the legend of reports/README.md.
std::string_view meaning_of(Verdict verdict);

// Whether a further run is to give a result in its place.
bool is_incomplete(Verdict verdict);

// For a column without room for the text; "" for a cell that stays empty.
std::string_view letter_of(Verdict verdict);

// The one that stands for all of them, of which there is at least one.
Verdict worst_of(const std::vector<Verdict>& verdicts);

}  // namespace recapture::report
