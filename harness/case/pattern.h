// Compares an observation with what was documented. Cases, expectations and verdicts use this one pattern language, so
// a record can be judged again without running anything.
#pragma once
#include <string>
#include <string_view>

namespace recapture {

// Whether `text` matches `pattern`, in which each `*` matches any run of characters. Nothing else is special.
inline bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Compares the observation of a Reproduces test with both values. If both match, the test cannot distinguish failure
// from health, which is a fault of the test.
inline const char* outcome(std::string_view seen, std::string_view documented, std::string_view healthy) {
  const bool is_documented = matches(documented, seen), is_healthy = matches(healthy, seen);
  if (is_documented && is_healthy) return "ambiguous";
  return is_documented ? "reproduced" : is_healthy ? "healthy" : "different";
}

}  // namespace recapture
