#include "harness/report/fix_code.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/base/lines.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/model/catalogue.h"

namespace recapture::report {
namespace {

// The C++ statements of a body: a line, or the lines up to the one that closes its parentheses. Braces do not count.
std::vector<std::string> statements_of(const std::string& body) {
  std::vector<std::string> statements;
  int open = 0;
  for (const std::string& line : lines_in(body)) {
    if (open == 0) {
      statements.push_back(line);
    } else {
      statements.back() += "\n" + line;
    }
    open += static_cast<int>(std::ranges::count(line, '(')) - static_cast<int>(std::ranges::count(line, ')'));
    open = std::max(open, 0);
  }
  return statements;
}

// "x = 1" of "  REMEDY(x = 1);"; nothing if the statement is no call of `macro`.
std::optional<std::string> argument_of(const std::string& statement, std::string_view macro) {
  const size_t begin = statement.find_first_not_of(' ');
  if (begin == std::string::npos || statement.compare(begin, macro.size(), macro) != 0) return std::nullopt;
  const size_t open = begin + macro.size(), end = statement.rfind(");");
  if (open >= statement.size() || statement[open] != '(' || end == std::string::npos) return std::nullopt;
  return statement.substr(open + 1, end - open - 1);
}

std::string unescaped(std::string text) {
  const std::vector<std::pair<std::string, std::string>> kEscapes = {{"\\n", "\n"}, {"\\\"", "\""}, {"\\\\", "\\"}};
  for (const auto& [escape, character] : kEscapes) {
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos; at += character.size()) {
      text.replace(at, escape.size(), character);
    }
  }
  return text;
}

// The string variables of a test, as they are with the remedy.
std::map<std::string, std::string> variables_of(const std::string& body) {
  static const RE2 kAssigned(R"rx((\w+) = "((?:[^"\\]|\\.)*)")rx", RE2::Latin1);
  std::map<std::string, std::string> values;
  for (const std::string& statement : statements_of(body)) {
    if (argument_of(statement, "WITHOUT_REMEDY")) continue;
    for (const Match& match : all_matches(statement, kAssigned)) {
      values[std::string(match[1])] = unescaped(std::string(match[2]));
    }
  }
  return values;
}

// The text of a constant such as kProgram, "" if the source has none.
std::string constant_in(const std::string& source, const std::string& name) {
  const std::string begin = "constexpr char " + name + "[] = R\"py(";
  const size_t at = source.find(begin), end = source.find(")py\"", at);
  return at == source.npos || end == source.npos ? "" : source.substr(at + begin.size(), end - at - begin.size());
}

// The only Python program of a test, in it or in a constant, and not by a function of the file's; "" if there is none.
std::string program_in(const std::string& body, const std::string& source) {
  static const RE2 kNamed(R"rx(\brun\((k\w+)(?:\)|,\s*\{\{"))rx", RE2::Latin1);
  constexpr std::string_view kBegin = "R\"py(", kEnd = ")py\"";
  const size_t begin = body.find(kBegin), end = body.find(kEnd);
  if (begin == body.npos || end == body.npos) {
    const auto named = all_matches(body, kNamed);
    return named.size() == 1 ? constant_in(source, std::string(named.front()[1])) : "";
  }
  static const RE2 kArguments(R"(^\s*(?:\)|,\s*\{\{"))", RE2::Latin1);  // None, or words that stand in the call.
  if (body.find(kBegin, end) != body.npos || !RE2::PartialMatch(body.substr(end + kEnd.size()), kArguments)) return "";
  return body.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

// Its program with its words filled in; "" if a word is not known.
std::string program_of(const std::string& body, const std::string& source) {
  std::string program = program_in(body, source);
  if (program.empty()) return "";
  const auto values = variables_of(body);
  static const RE2 kWord(R"rx(\{"(\w+)", (?:"((?:[^"\\]|\\.)*)"|(\w+))\})rx", RE2::Latin1);
  for (const Match& word : all_matches(body, kWord)) {
    const std::string place = "{" + std::string(word[1]) + "}";
    const auto value = values.find(std::string(word[3]));
    if (word[2].empty() && value == values.end()) return "";
    const std::string text = word[2].empty() ? value->second : unescaped(std::string(word[2]));
    for (size_t at = 0; (at = program.find(place, at)) != program.npos; at += text.size()) {
      program.replace(at, place.size(), text);
    }
  }
  std::string text;
  std::string before;
  for (const std::string& line : lines_in(program)) {
    const size_t first = line.find_first_not_of(' ');
    if (first == line.npos || line.rfind("import torch", 0) == 0) continue;
    if (line == "graph = torch.cuda.CUDAGraph()") continue;  // As every capture begins.
    if (line.substr(first) == "pass" && !before.ends_with(":")) continue;
    text += line + "\n";
    before = line;
  }
  return text;
}

std::string without_indent(const std::string& text) {
  const std::vector<std::string> lines = lines_in(text);
  size_t indent = std::string::npos;
  for (const std::string& line : lines) indent = std::min(indent, line.find_first_not_of(' '));
  std::string out;
  for (const std::string& line : lines) out += line.substr(std::min(indent, line.size())) + "\n";
  return out;
}

std::string statements_without_markers(const std::string& body) {
  std::string text;
  for (const std::string& statement : statements_of(body)) {
    const size_t begin = statement.find_first_not_of(' ');
    if (begin == std::string::npos || argument_of(statement, "WITHOUT_REMEDY")) continue;
    const std::string_view rest = std::string_view(statement).substr(begin);
    if (begins_with_any(rest, {"//", "EXPECT_GT(captured_nodes(", "NEEDS_", "REMEDY_STAYS("})) continue;
    const auto remedy = argument_of(statement, "REMEDY");
    text += (remedy ? statement.substr(0, begin) + *remedy + ";" : statement) + "\n";
  }
  return without_indent(text);
}

}  // namespace

std::string body_of(const std::string& source, const std::string& test) {
  const std::string whole = test_in(source, test);
  const size_t begin = whole.find('\n') + 1, end = whole.rfind("\n}\n");
  return whole.empty() || begin > end ? "" : whole.substr(begin, end - begin);
}

std::string fix_code(const std::string& source, const std::string& test, bool& is_python) {
  const std::string body = body_of(source, test);
  is_python = false;
  if (body.empty()) return "";
  if (std::string program = program_of(body, source); !program.empty()) {
    is_python = true;
    return program;
  }
  const bool makes_program = source.find("fixtures/python/") != source.npos && body.find('"') != body.npos;
  return makes_program ? "" : statements_without_markers(body);  // Words of a program alone mean nothing.
}

}  // namespace recapture::report
