#include "harness/tests/lint/english.h"

#include "harness/base/regex.h"

namespace recapture::lint {
namespace {

size_t count_words(const std::string& literal) {
  static const RE2 kNoWord(R"(\\.|\{[^}]*\})"), kWord("[A-Za-z][A-Za-z']*");
  return all_matches(replace_all(literal, kNoWord, " "), kWord).size();
}

bool makes_error(const std::string& statement) {
  for (const char* name : {"throw", "ExitError", "Exit::", "static_assert"}) {
    if (statement.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> english_in(const std::string& source) {
  // A comment, a raw string, a literal, an #include, the end of a statement, blanks, or any other character.
  static const RE2 kToken(
      R"token((?s)(//[^\n]*|/\*.*?\*/|R"re\(.*?\)re"|R"\(.*?\)"|#include[^\n]*)|"((?:[^"\\]|\\.)*)")token"
      R"token(|('(?:[^'\\]|\\.)')|([;{}])|(\s+)|(.))token",
      RE2::Latin1);
  std::vector<std::string> found, literals;
  std::string statement;
  bool follows_literal = false;
  const auto end_statement = [&]() {
    for (const std::string& literal : literals) {
      if (count_words(literal) >= 3 && !makes_error(statement)) found.push_back(literal);
    }
    literals.clear();
    statement.clear();
  };
  for (const Match& token : all_matches(source, kToken)) {
    if (!token[1].empty() || !token[5].empty()) continue;
    const bool is_literal = token[0].starts_with('"');
    if (is_literal) {
      if (!follows_literal) literals.emplace_back();
      literals.back() += token[2];
    } else if (!token[4].empty()) {
      end_statement();
    } else {
      statement += token[0];
    }
    follows_literal = is_literal;
  }
  end_statement();
  return found;
}

}  // namespace recapture::lint
