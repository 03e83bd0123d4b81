// Verdicts and rules as Markdown tables.
#pragma once
#include <string>

#include "harness/verdict/result_matrix.h"

namespace recapture::report {

// All of reports/README.md: a line a case, a column a kind of machine, and what the cells mean. No cell is blank: where
// there is no result, it says why.
std::string render_markdown(const ResultMatrix& board);

// The two tables that judge.
std::string render_rules();

}  // namespace recapture::report
