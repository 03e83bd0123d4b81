// Verdicts and rules as Markdown tables.
#pragma once
#include <string>

#include "harness/judge/board.h"

namespace recapture {

// All of reports/README.md: a line a case, a column a kind of machine, and what the cells mean. No cell is blank: where
// there is no result, it says why.
std::string as_markdown(const Board& board);

// The two tables that judge.
std::string rules_as_markdown();

}  // namespace recapture
