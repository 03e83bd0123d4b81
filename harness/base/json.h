// JSON from outside: a file by anyone, or a process under test.
#pragma once
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace recapture {

using Json = nlohmann::ordered_json;

// Stricter than the library: refuses duplicate keys (the library keeps the last) and nesting deep enough to overflow
// the stack when the value is copied. Throws std::exception.
Json parse_json(std::string_view text);

// The same, but nothing instead of an exception.
std::optional<Json> try_parse_json(std::string_view text);

// Replaces bytes that are not UTF-8; dump() would throw.
inline std::string to_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A member; nullptr where the object has none. Faster than the library's find(), which does not compare lengths first.
inline const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (std::string_view(name) == key) return &value;
  }
  return nullptr;
}

// A member, if it is there and of that kind. The text lives as long as the object.
inline const std::string& text_at(const Json& object, std::string_view key) {
  static const std::string kNone;
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get_ref<const std::string&>() : kNone;
}
const std::string& text_at(const Json&& object, std::string_view key) = delete;
inline std::optional<int> int_at(const Json& object, std::string_view key) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  const auto number = value->get<int64_t>();  // Larger values become negative; hits and tries never are.
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace recapture
