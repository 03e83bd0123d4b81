// Text kit of the renderers. Text from outside goes through escape.h first.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
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

inline constexpr size_t kTextWidth = 110;

// Breaks at blanks into lines of at most kTextWidth columns; `first` starts the first line and `more` each further one.
std::string wrap(const std::string& first, const std::string& text, const std::string& more);

template <class Range, class Value>
bool contains(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

// Appends a value unless it is present.
template <class T>
void add_once(std::vector<T>& all, const std::type_identity_t<T>& one) {
  if (!contains(all, one)) all.push_back(one);
}

inline bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view one) { return text.starts_with(one); });
}

inline size_t count_lines(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace recapture
