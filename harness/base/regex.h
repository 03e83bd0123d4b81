// Regular expressions of RE2: linear time and bounded stack for any text. The texts are bytes, not always UTF-8, hence
// RE2::Latin1.
#pragma once
#include <re2/re2.h>

#include <string>
#include <string_view>
#include <vector>

namespace recapture {

// All matches from left to right, each with its groups; group 0 is the match. A group that did not take part is "".
// They point into the text.
using Match = std::vector<std::string_view>;

inline std::vector<Match> all_matches(std::string_view text, const RE2& expression) {
  const auto groups = static_cast<size_t>(expression.NumberOfCapturingGroups()) + 1;
  std::vector<re2::StringPiece> found(groups);
  std::vector<Match> all;
  for (size_t at = 0; at <= text.size();) {
    if (!expression.Match(text, at, text.size(), RE2::UNANCHORED, found.data(), static_cast<int>(groups))) break;
    all.emplace_back();
    for (const re2::StringPiece& group : found) all.back().emplace_back(group.data(), group.size());
    const auto end = static_cast<size_t>(found[0].data() - text.data()) + found[0].size();
    at = found[0].empty() ? end + 1 : end;
  }
  return all;
}

inline std::string replace_all(std::string text, const RE2& expression, const char* by) {
  RE2::GlobalReplace(&text, expression, by);
  return text;
}

}  // namespace recapture
