#include "harness/show/markdown.h"

#include <fmt/format.h>

#include <algorithm>

namespace recapture {
namespace {

// What the newest results of a case on one kind of machine amount to.
std::string cell_of(const std::vector<Row>& rows) {
  std::vector<std::string> words;  // Each word once, in the tests' order.
  int fixes = 0, holding = 0;
  for (const Row& row : rows) {
    if (row.verdict == Verdict::Stale) return "stale";
    if (row.kind == Kind::Reproduces) {
      const std::string found(word(row.result));
      if (std::find(words.begin(), words.end(), found) == words.end()) words.push_back(found);
    } else if (row.kind == Kind::Fix && row.result != Result::Inapplicable) {
      ++fixes;
      holding += row.result == Result::Holds ? 1 : 0;
    }
  }
  std::string cell;
  for (const std::string& found : words) cell += (cell.empty() ? "" : ", ") + found;
  if (fixes > 0) cell += fmt::format("; {} of {} fixes hold", holding, fixes);
  return cell;
}

}  // namespace

std::string as_markdown(const Board& board) {
  std::vector<CaseInfo> cases;
  for (const auto& [id, info] : board.cases()) cases.push_back(info);
  std::stable_sort(cases.begin(), cases.end(),
                   [](const CaseInfo& a, const CaseInfo& b) { return a.family < b.family; });
  std::string text = "| case | what happens |", rule = "\n| --- | --- |";
  for (const std::string& machine : board.machines()) {
    text += " " + machine + " |";
    rule += " --- |";
  }
  text += rule + "\n";
  for (const CaseInfo& info : cases) {
    text += fmt::format("| [{}](cases/{}/{}.cpp) | {} |", info.id, info.family, info.id, info.title);
    for (const std::string& machine : board.machines()) text += " " + cell_of(board.newest(info.id, machine)) + " |";
    text += "\n";
  }
  return text;
}

std::string rules_as_markdown() {
  std::string text =
      "| the process | the test said | Reproduces… is | Control…, Fix… is |\n| --- | --- | --- | --- |\n";
  for (const ClassifyRow& row : classify_rows()) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.ending, row.said, word(row.reproduces), word(row.other));
  }
  text += "\n| result | nothing expected | expected | something else expected |\n| --- | --- | --- | --- |\n";
  for (const JudgeRow& row : judge_rows()) {
    const std::string unexpected =
        row.unexpected == Verdict::FixFails ? "fix fails, control fails" : std::string(word(row.unexpected));
    text +=
        fmt::format("| {} | {} | {} | {} |\n", word(row.result), unexpected, word(row.expected), word(row.otherwise));
  }
  return text;
}

}  // namespace recapture
