// Verdicts and rules as Markdown tables.
#pragma once
#include <string>

#include "harness/judge/board.h"

namespace recapture {

// A line a case, a column a kind of machine.
std::string as_markdown(const Board& board);

// The two tables that judge.
std::string rules_as_markdown();

}  // namespace recapture
