// JSON from outside: a file by anyone, or a process under test.
#pragma once
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
inline std::optional<int> int_in(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<int64_t>();  // Larger values become negative; hits and tries never are.
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(number);
}
inline std::optional<int> int_at(const Json& object, std::string_view key) {
  const Json* value = member(object, key);
  return value == nullptr ? std::nullopt : int_in(*value);
}

// An object that stays text: its members are found once, and each is read when it is asked for, which takes a fraction
// of a Json's time and memory. The text must outlive it.
class JsonObject {
 public:
  struct Member {
    std::string_view key, value;  // As they are in the text; a key without its quotes.

    std::string name() const;
  };

  JsonObject() = default;
  // std::nullopt if the text is not an object, not in the form that to_text() writes, or not ASCII. parse_json() can
  // still read such a text, or has the error.
  static std::optional<JsonObject> read(std::string_view text);
  // Of text by to_text(), or of a value within an object that was read; without members if it is no object.
  static JsonObject known(std::string_view text);

  std::string_view text() const { return text_; }
  const std::vector<Member>& members() const { return members_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // A member, if it is there and of that kind; null or without members otherwise.
  std::string text(std::string_view key) const;
  std::optional<int> number(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  Json part(std::string_view key) const;
  JsonObject object(std::string_view key) const;

 private:
  const Member* find(std::string_view key) const {
    for (const Member& one : members_) {
      if (one.key == key) return &one;
    }
    return nullptr;
  }

  std::string_view text_;
  std::vector<Member> members_;
};

// A text's value, from its form in a JsonObject.
std::string unquoted(std::string_view quoted);

}  // namespace recapture
