// Lists of texts.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

namespace recapture {

// Appends a text that is not there yet.
inline void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

}  // namespace recapture
