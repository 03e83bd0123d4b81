#include "harness/report/program_diff.h"

#include <re2/re2.h>

#include <algorithm>
#include <sstream>

#include "harness/model/program.h"

namespace recapture::report {
namespace {

// The lines of a function without its `def`, comments and blank lines.
std::vector<std::string> statements_in(const std::string& program, const std::string& function) {
  std::vector<std::string> lines;
  std::istringstream text(program_function(program, function));
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) {
    const std::string code = without_comments(line);
    const size_t end = code.find_last_not_of(' ');
    if (end != std::string::npos) lines.push_back(code.substr(0, end + 1));
  }
  return lines;
}

// By the longest common subsequence.
std::vector<std::string> all_lines(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  std::vector<std::vector<size_t>> common(before.size() + 1, std::vector<size_t>(now.size() + 1, 0));
  for (size_t i = before.size(); i-- > 0;) {
    for (size_t j = now.size(); j-- > 0;) {
      common[i][j] = before[i] == now[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<std::string> lines;
  size_t i = 0, j = 0;
  while (i < before.size() || j < now.size()) {
    if (i < before.size() && j < now.size() && before[i] == now[j]) {
      lines.push_back(" " + before[i++]);
      ++j;
    } else if (j == now.size() || (i < before.size() && common[i + 1][j] >= common[i][j + 1])) {
      lines.push_back("-" + before[i++]);
    } else {
      lines.push_back("+" + now[j++]);
    }
  }
  return lines;
}

// A fix against what it is without its change, by its marks.
std::vector<std::string> marked_lines(const std::string& program, const std::string& fix) {
  static const RE2 kMark(R"(^( *)(.*?) *# fix(?:: (.*))?$)");
  std::vector<std::string> lines;
  std::istringstream text(program_function(program, fix));
  std::string line, indent, code, instead;
  std::getline(text, line);
  while (std::getline(text, line)) {
    if (RE2::FullMatch(line, kMark, &indent, &code, &instead)) {
      if (!instead.empty()) lines.push_back("-" + indent + instead);
      if (!code.empty()) lines.push_back("+" + indent + code);
      continue;
    }
    const std::string statement = without_comments(line);
    const size_t end = statement.find_last_not_of(' ');
    if (end != std::string::npos) lines.push_back(" " + statement.substr(0, end + 1));
  }
  return lines;
}

constexpr size_t kScreen = 25;

// What differs, with a line before and behind each difference, and more of them up to `most`.
std::vector<std::string> near_differences(const std::vector<std::string>& all, size_t most) {
  const auto differs = [&](size_t at) { return at < all.size() && all[at].front() != ' '; };
  std::vector<bool> is_shown(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    is_shown[i] = differs(i) || differs(i + 1) || (i > 0 && differs(i - 1));
  }
  // What follows the change first: where a line is only removed, the later lines are what to write.
  size_t shown = std::ranges::count(is_shown, true);
  for (const bool follows : {true, false}) {
    for (size_t n = 1; n < all.size(); ++n) {
      const size_t i = follows ? n : all.size() - 1 - n;
      const bool is_return = all[i].find("return") == all[i].find_first_not_of(' ', 1);
      if (shown >= most || is_shown[i] || !is_shown[follows ? i - 1 : i + 1] || is_return) continue;
      is_shown[i] = true;
      ++shown;
    }
  }
  std::vector<std::string> near;
  size_t indent = std::string::npos;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_shown[i]) continue;
    near.push_back(all[i]);
    indent = std::min(indent, all[i].find_first_not_of(' ', 1) - 1);
  }
  for (std::string& line : near) line.erase(1, indent);
  return near;
}

}  // namespace

std::vector<std::string> program_diff(const std::string& program, const std::string& fix, size_t most) {
  const auto before = statements_in(program, "fails"), now = statements_in(program, fix);
  if (before.empty() || now.empty()) return {};
  const auto lines = near_differences(all_lines(before, now), most);
  // A fix that needs other code around it has little in common with the failure.
  return lines.size() <= kScreen ? lines : near_differences(marked_lines(program, fix), most);
}

}  // namespace recapture::report
