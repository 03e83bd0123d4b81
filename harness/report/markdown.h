// Verdicts and rules as Markdown tables.
#pragma once
#include <string>

#include "harness/store/result_matrix.h"

namespace recapture::report {

// reports/README.md: a row for each case, a column for each kind of machine, and a legend. No cell is blank: without a
// result it has the reason.
std::string render_markdown(const ResultMatrix& board);

// The two tables of the judge.
std::string render_rules();

}  // namespace recapture::report
