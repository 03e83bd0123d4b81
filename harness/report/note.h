// The head of a comparison in words: bundled libraries, and notes on the runs.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"

namespace recapture::report {

// One line. Those that qualify a result begin with "note: ".
std::string render_note(const compare::Note& note);
// Whether that line begins so.
bool is_qualification(const compare::Note& note);

// The bundled libraries, then the notes; a line each.
std::vector<std::string> render_head(const compare::Comparison& comparison);

}  // namespace recapture::report
