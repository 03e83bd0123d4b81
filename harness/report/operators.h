// The table of operators under capture: as text, JSON and Markdown.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

// A row of the table: a cell for each release, "" without a record.
struct OperatorView {
  std::vector<std::string> words, phrases;  // "refused"; with the form if the forward pass is captured.
  bool is_captured = false;                 // In every recorded release that has it and its libraries.
  std::string why, instead;                 // For the newest release that cannot capture it, or is inconclusive.
};
// A possible content of a cell.
struct OperatorWord {
  std::string text, color, meaning;
};
// Best first.
std::vector<OperatorWord> operator_words();
OperatorView view_of(const timeline::OperatorTable& table, const timeline::OperatorRow& row);

// "right after other work, a second graph", or "not right after a dropped cache".
std::string describe_later(const LaterResult& later);
// Whether the operator's graph is still right after other work: what each release's records show, newest first, and the
// case that shows it. "" if nothing is recorded.
std::string later_line(const timeline::OperatorRow& row);

// Answers for named operators: those that cannot be captured in that release, or, if it has no operators on record, in
// any release.
OperatorAnswers operator_answers(const timeline::OperatorTable& table, const std::string& release);

// One operator: a line with its results by release, then its forms on the newest release, and what to capture instead.
std::string render_text(const timeline::OperatorRow& row);

// A line for each operator that some release refuses or gets wrong, and counts of each result.
std::string render_text(const timeline::OperatorTable& table);

// What reports/operators.json.xz has packed, described in docs/reference/operators.md; as text, a line for each
// operator.
Json render_json(const timeline::OperatorTable& table);
std::string render_json_lines(const timeline::OperatorTable& table);

// reports/operators.md
std::string render_markdown(const timeline::OperatorTable& table);

}  // namespace recapture::report
