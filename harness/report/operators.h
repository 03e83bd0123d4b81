// The table of operators under capture: as text, as JSON for other tools, as Markdown.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

// One operator beside the others: a cell for each release of the table, "" where it is not on record.
struct OperatorView {
  std::vector<std::string> words, phrases;  // "refused"; with the form, where the forward pass is captured.
  bool is_captured = false;                 // In every release on record that has it and its libraries.
  std::string why, instead;                 // Of the newest release that cannot capture it.
};
// A word of a cell.
struct OperatorWord {
  std::string text, color, meaning;
};
// The best first.
std::vector<OperatorWord> operator_words();
OperatorView view_of(const timeline::OperatorTable& table, const timeline::OperatorRow& row);

// What to answer where one of these is named: of those that cannot be captured in that release, or, where it has no
// operators on record, in some release.
OperatorAnswers operator_answers(const timeline::OperatorTable& table, const std::string& release);

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
