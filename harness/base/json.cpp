#include "harness/base/json.h"

#include <stdexcept>
#include <vector>

namespace recapture {
namespace {

constexpr size_t kDeepest = 32;  // A culprit's frames, the deepest that we write, are at three.
constexpr size_t kMembers = 16;  // As a test's line may have: an object that grows copies the keys that it has.

// Builds the value from what the library reads, event by event.
class Builder {
 public:
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(value); }
  bool binary(Json::binary_t&) { return false; }  // Text has none.
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool start_object(size_t) {
    open(Json::object());
    if (open_.size() == 1) object().reserve(kMembers);
    return true;
  }
  bool key(const std::string& key) {
    const auto [at, is_new] = object().emplace(key, nullptr);
    if (!is_new) throw std::runtime_error("it has '" + key + "' twice");
    member_ = &at->second;
    return true;
  }
  bool end_object() { return close(); }
  bool parse_error(size_t, const std::string&, const Json::exception& error) { throw std::runtime_error(error.what()); }

  Json take() { return std::move(root_); }

 private:
  Json::object_t& object() { return open_.back()->get_ref<Json::object_t&>(); }

  Json& place() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *member_;
    return open_.back()->get_ref<Json::array_t&>().emplace_back();
  }
  bool put(Json value) {
    place() = std::move(value);
    return true;
  }
  bool open(Json empty) {
    if (open_.size() == kDeepest) throw std::runtime_error("it is nested too deep");
    Json& value = place();
    value = std::move(empty);
    open_.push_back(&value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // What contains them does not grow before they are closed.
  Json* member_ = nullptr;   // Of the innermost object the value whose key was read last.
};

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::optional<Json> try_parse_json(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace recapture
