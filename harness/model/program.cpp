#include "harness/model/program.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "harness/base/file.h"
#include "harness/case/source_hash.h"
#include "harness/case/types.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDef = "def ", kMain = "main";

// The function that a line defines; "" if it is none.
std::string_view defined_in(std::string_view line) {
  if (line.substr(0, kDef.size()) != kDef) return {};
  return line.substr(kDef.size(), line.find('(') - kDef.size());
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Where the string literal that begins at a quote ends.
size_t end_of_string(std::string_view s, size_t at) {
  const std::string_view triple = s.substr(at, 3);
  const bool is_triple = triple == R"(""")" || triple == "'''";
  const std::string_view quote = is_triple ? triple : s.substr(at, 1);
  for (size_t i = at + quote.size(); i < s.size(); ++i) {
    if (s[i] == '\\') {
      ++i;
    } else if (s.substr(i, quote.size()) == quote) {
      return i + quote.size();
    } else if (s[i] == '\n' && !is_triple) {
      return i;
    }
  }
  return s.size();
}

}  // namespace

std::vector<std::string> functions_in(std::string_view source) {
  std::vector<std::string> functions;
  for (const std::string_view line : lines_of(source)) {
    if (const std::string_view name = defined_in(line); !name.empty() && name != kMain) functions.emplace_back(name);
  }
  return functions;
}

std::string test_of_function(std::string_view function) {
  const std::string prefix(kProgramPrefix);
  if (function == "fails") return prefix + "Reproduces";
  if (function.substr(0, 4) != "fix_") return "";
  std::string test = prefix;
  bool begins = true;
  for (const char c : function) {
    if (c != '_') test += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = c == '_';
  }
  return test;
}

std::vector<std::string> tests_of(const CaseProgram& program) {
  std::vector<std::string> tests;
  for (const std::string& function : program.functions) {
    if (std::string test = test_of_function(function); !test.empty()) tests.push_back(std::move(test));
  }
  return tests;
}

std::string without_comments(std::string_view source) {
  std::string code;
  for (size_t i = 0; i < source.size();) {
    if (source[i] == '#') {
      i = std::min(source.find('\n', i), source.size());
    } else if (source[i] == '"' || source[i] == '\'') {
      const size_t end = end_of_string(source, i);
      code += source.substr(i, end - i);
      i = end;
    } else {
      code += source[i++];
    }
  }
  return code;
}

std::string program_hash(std::string_view source) {
  const size_t main = source.find("\ndef main(");
  if (main != std::string_view::npos) source = source.substr(0, main + 1);
  const std::string code = without_comments(source);
  std::string_view rest = code;
  rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
  if (rest.substr(0, 3) == R"(""")") rest.remove_prefix(end_of_string(rest, 0));
  std::string counted;
  for (std::string_view line : lines_of(rest)) {
    const size_t end = line.find_last_not_of(" \t\r");
    if (end == std::string_view::npos) continue;
    counted += line.substr(0, end + 1);
    counted += '\n';
  }
  return hash_of(counted);
}

std::string program_function(const std::string& source, const std::string& function) {
  std::string text;
  bool is_in = false;
  for (const std::string_view line : lines_of(source)) {
    const bool begins = !line.empty() && line.front() != ' ' && line.front() != '#' && line.front() != ')';
    if (begins) is_in = defined_in(line) == function;
    if (is_in) text.append(line).append("\n");
  }
  while (text.size() > 1 && text.substr(text.size() - 2) == "\n\n") text.pop_back();
  return text;
}

std::map<std::string, CaseProgram> programs_in_tree(const std::string& root, const std::set<std::string>& only) {
  std::map<std::string, CaseProgram> programs;
  std::error_code error;
  for (const auto& family : fs::directory_iterator(root + "/cases", error)) {
    if (!family.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(family.path())) {
      const std::string id = file.path().stem().string();
      if (file.path().extension() != ".py" || (!only.empty() && only.count(id) == 0)) continue;
      const std::string source = contents_of(file.path());
      programs[id] = {family.path().filename().string(), file.path().string(), program_hash(source),
                      functions_in(source)};
    }
  }
  return programs;
}

}  // namespace recapture
