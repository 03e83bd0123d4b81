// The table of operators under capture: as text, as JSON for other tools, as Markdown.
#pragma once
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

// One operator: in a line since when it is what, then its forms on the newest release, and what to capture instead.
std::string render_text(const timeline::OperatorRow& row);

// A line for each operator that some release refuses or gets wrong, and how many there are of each kind.
std::string render_text(const timeline::OperatorTable& table);

// reports/operators.json, as docs/reference/operators.md has it; as text with a line for each operator.
Json render_json(const timeline::OperatorTable& table);
std::string render_json_lines(const timeline::OperatorTable& table);

// reports/operators.md
std::string render_markdown(const timeline::OperatorTable& table);

}  // namespace recapture::report
