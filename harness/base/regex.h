// Regular expressions: RE2's, which take linear time and no stack for any text. What CUDA, a library or a user
// wrote is bytes and not always UTF-8: RE2::Latin1.
#pragma once
#include <re2/re2.h>

#include <string>
#include <string_view>
#include <vector>

namespace recapture {

// The matches of an expression in a text from left to right, each with its groups; the first one is all of it. A group
// that took no part is "". They point into the text.
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
