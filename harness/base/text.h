// What texts are put together from. Text from outside goes through escape.h first.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

// "1 test", "2 tests"
inline std::string plural(size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

template <class Texts = std::vector<std::string>>
std::string join(const Texts& texts, std::string_view between = ", ") {
  return fmt::format("{}", fmt::join(texts, between));
}

// Appends a text that is not there yet.
inline void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

}  // namespace recapture
