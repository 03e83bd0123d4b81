#include "harness/model/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/case/pattern.h"
#include "harness/model/release.h"

namespace recapture {
namespace {

constexpr size_t kMost = 5;                                                    // For longer lists there are verbs.
constexpr std::array<const char*, 2> kWithoutLibtorch = {"cuda12", "cuda13"};  // Releases that are not versions.

// A word in a form independent of case and separators: "ItemInCapture" and "item_in_capture" are equal.
std::string folded(const std::string& word) {
  std::string folded;
  for (const char c : word) {
    if (c == '_' || c == '-' || c == ' ' || c == '*') continue;
    folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return folded;
}

// The edit distance of two words: insertions, deletions, substitutions, and swaps of neighbours.
size_t slips(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::vector<std::string> of_the_same_line(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string> found;
  const Release wanted(word);
  if (!wanted.is_version()) return found;
  std::ranges::copy_if(known, std::back_inserter(found), [&](const std::string& name) {
    const Release release(name);
    return release.is_version() && release.line() == wanted.line();
  });
  return found;
}

// "; did you mean a, b or c?"; "" if there is none.
std::string question(const std::vector<std::string>& found) {
  std::string text;
  for (size_t i = 0; i < found.size(); ++i) {
    text += (i == 0 ? "; did you mean " : i + 1 < found.size() ? ", " : " or ") + found[i];
  }
  return found.empty() ? text : text + "?";
}

// "; did you mean 2.9.1?", or "; the newest are 2.13.0, 2.14.1 and 2.15.0" if none is of the release's line.
std::string instead_of(const std::string& release, std::vector<std::string> known, const std::string& if_none) {
  constexpr size_t kNewest = 3;
  if (const auto line = of_the_same_line(release, known); !line.empty() && line.size() <= kMost) return question(line);
  if (const auto alike = near(release, known); !is_version(release) && !alike.empty()) return question(alike);
  std::erase_if(known, [](const std::string& one) { return !is_version(one); });
  if (known.empty()) return if_none;
  sort_releases(known);
  if (known.size() > kNewest) known.erase(known.begin(), known.end() - static_cast<ptrdiff_t>(kNewest));
  std::string text;
  for (size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : i + 1 == known.size() ? " and " : ", ") + known[i];
  return fmt::format("; the newest {} {}", known.size() == 1 ? "is" : "are", text);
}

bool is_path(const std::string& word) {
  return word.find('/') != std::string::npos || std::filesystem::path(word).extension() == ".cpp";
}

// One line for an unknown word.
std::string nothing_named(const std::string& word, const Names& names) {
  constexpr const char* kList = "`recapture list` names all";
  if (const size_t dot = word.find('.'); dot != std::string::npos) {
    const std::string case_id = word.substr(0, dot);
    if (contains(names.cases, case_id)) {
      std::vector<std::string> its;
      for (const std::string& test : names.tests) {
        if (test.rfind(case_id + ".", 0) == 0) its.push_back(test);
      }
      return unknown_name("test", word, its, "`recapture list --tests " + case_id + "` names its tests");
    }
    if (!near(word, names.tests).empty()) return unknown_name("test", word, names.tests);
    return unknown_name("case", case_id, names.cases, kList);
  }
  if (!near(word, names.cases).empty()) return unknown_name("case", word, names.cases);
  if (!near(word, names.families).empty()) return unknown_name("family", word, names.families);
  return unknown_name("family or case", word, {}, kList);
}

}  // namespace

std::string last_part(std::string word) {
  while (word.size() > 1 && word.back() == '/') word.pop_back();
  return std::filesystem::path(word).extension() == ".cpp" ? std::filesystem::path(word).stem().string()
                                                           : std::filesystem::path(word).filename().string();
}

std::vector<std::string> near(const std::string& word, const std::vector<std::string>& known) {
  const std::string wrong = folded(word);
  if (wrong.empty()) return {};
  std::vector<std::string> same, line = of_the_same_line(word, known), begun, few, part;
  size_t fewest = std::clamp<size_t>(wrong.size() / 4, 1, 4);  // The limit of the edit distance.
  for (const std::string& candidate : known) {
    const std::string right = folded(candidate);
    if (right == wrong) same.push_back(candidate);
    if (right.rfind(wrong, 0) == 0) begun.push_back(candidate);
    if (right.find(wrong) != std::string::npos) part.push_back(candidate);
    const size_t apart = right.size() > wrong.size() ? right.size() - wrong.size() : wrong.size() - right.size();
    if (apart > fewest) continue;
    const size_t count = slips(wrong, right);
    if (count < fewest) few.clear();
    if (count <= fewest) few.push_back(candidate);
    fewest = std::min(fewest, count);
  }
  for (auto* found : {&same, &line, &begun, &few, &part}) {
    if (!found->empty() && found->size() <= kMost) return *found;
  }
  return {};
}

std::string unknown_name(const std::string& what, const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const std::string text = fmt::format("there is no {} '{}'", what, word);
  if (const auto found = near(word, known); !found.empty()) return text + question(found);
  return otherwise.empty() ? text : text + "; " + otherwise;
}

std::vector<std::string> named(const std::string& word, const Names& names) {
  const std::string wanted = is_path(word) ? last_part(word) : word;
  for (const auto* known : {&names.families, &names.cases, &names.tests}) {
    if (contains(*known, wanted)) return {wanted};
  }
  std::vector<std::string> found;
  if (wanted.find('*') != std::string::npos) {
    const auto take = [&](const std::vector<std::string>& known) {
      std::ranges::copy_if(known, std::back_inserter(found),
                           [&](const std::string& name) { return matches(wanted, name); });
    };
    if (wanted.find('.') != std::string::npos) {
      take(names.tests);
    } else {
      take(names.families);
      take(names.cases);
    }
  }
  if (found.empty()) throw ExitError(Exit::Usage, nothing_named(wanted, names));
  return found;
}

bool can_be_release(const std::string& word) { return is_version(word) || is_without_libtorch(word); }

bool is_without_libtorch(const std::string& word) { return contains(kWithoutLibtorch, word); }

std::string no_records_of(const std::string& release, const std::string& folder, const std::set<std::string>& others) {
  const std::string where = folder.ends_with("reports") ? "" : " below " + folder;
  return escape_control(fmt::format("there are no records of {}{}{}", release, where,
                                    instead_of(release, {others.begin(), others.end()}, "; there are none at all")));
}

std::vector<std::string> known_releases(const std::string& root) {
  std::vector<std::string> known = read_matrix(root);
  known.insert(known.end(), kWithoutLibtorch.begin(), kWithoutLibtorch.end());
  std::error_code none;  // A release with records need not be in the matrix.
  for (const auto& entry : std::filesystem::directory_iterator(root + "/reports", none)) {
    const std::string name = entry.path().filename();
    if (is_version(name) && entry.is_directory() && !contains(known, name)) known.push_back(name);
  }
  return known;
}

std::string known_release(const std::string& root, const std::string& word, const Yields& yields) {
  const std::vector<std::string> known = known_releases(root);
  std::string meant = resolve_release(word, known, yields);
  if (contains(known, meant)) return meant;
  throw ExitError(Exit::Usage,
                  escape_control(fmt::format("there is no release '{}'{}", word, instead_of(word, known, ""))));
}

}  // namespace recapture
