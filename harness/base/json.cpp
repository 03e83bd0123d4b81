#include "harness/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <vector>

// RapidJSON reads strings 16 bytes at a time.
#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#elif defined(__ARM_NEON)
#define RAPIDJSON_NEON
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

namespace recapture {
namespace {

constexpr size_t kDeepest = 32;      // A culprit's frames, the deepest that we write, are at three.
constexpr size_t kMembers = 16;      // As a test's line may have: an object that grows copies the keys that it has.
constexpr size_t kMembersBelow = 8;  // As most objects within it.
constexpr size_t kSearched = 64;     // More members than these are found by their hash.

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  const char* const end = text.data() + text.size();
  Number value{};
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return at == end && error == std::errc() ? std::optional(value) : std::nullopt;
}

// Whole numbers where they fit, as nlohmann's reader has them. RapidJSON 1.1 itself reads 0e120 as a power of two.
Json number_of(std::string_view text) {
  if (text.front() != '-') {
    if (const auto whole = number_in<uint64_t>(text)) return *whole;
  } else if (const auto whole = number_in<int64_t>(text)) {
    return *whole;
  }
  if (const auto number = number_in<double>(text)) return *number;
  const double nearest = std::strtod(std::string(text).c_str(), nullptr);  // from_chars() has none for 1e-400.
  if (std::isinf(nearest)) throw std::runtime_error("a number is too large");
  return nearest;
}

// Builds the value from RapidJSON's events: its reader takes a third of the time of nlohmann's.
class Builder {
 public:
  bool Null() { return put(nullptr); }
  bool Bool(bool value) { return put(value); }
  // With kParseNumbersAsStringsFlag all numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return put(number_of({text, size})); }
  bool String(const char* text, rapidjson::SizeType size, bool) { return put(std::string(text, size)); }
  bool StartArray() { return open(Json::value_t::array); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  bool StartObject() {
    open(Json::value_t::object);
    object().reserve(open_.size() == 1 ? kMembers : kMembersBelow);
    return true;
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    key_.assign(text, size);
    return true;
  }
  bool EndObject(rapidjson::SizeType) { return close(); }

  Json take() { return std::move(root_); }

 private:
  Json::object_t& object() { return open_.back()->get_ref<Json::object_t&>(); }

  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
    if (!is_new_key()) throw std::runtime_error("it has '" + key_ + "' twice");
    return object().emplace_back(key_, std::move(value)).second;
  }
  // The library compares a new key with all others.
  bool is_new_key() {
    const Json::object_t& members = object();
    if (members.size() < kSearched) return member(*open_.back(), key_) == nullptr;
    std::unordered_set<std::string>& keys = keys_[open_.size()];
    if (keys.empty()) {
      for (const auto& [key, value] : members) keys.insert(key);
    }
    return keys.insert(key_).second;
  }
  bool put(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (open_.size() == kDeepest) throw std::runtime_error("it is nested too deep");
    open_.push_back(&add(std::move(empty)));
    return true;
  }
  bool close() {
    if (!keys_.empty()) keys_.erase(open_.size());
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // What contains them does not grow before they are closed.
  std::string key_;          // Of the value that comes next, if it is a member of an object.
  std::map<size_t, std::unordered_set<std::string>> keys_;  // Of large objects, by how many contain them.
};

// ASCII is valid UTF-8 and needs no validation. Nearly all of a record is ASCII.
bool is_ascii(std::string_view text) {
  uint64_t all = 0, eight = 0;
  size_t at = 0;
  for (; at + sizeof eight <= text.size(); at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    all |= eight;
  }
  for (; at < text.size(); ++at) all |= static_cast<unsigned char>(text[at]);
  return (all & 0x8080808080808080u) == 0;
}

// Finds the members of an object. Fails on a text that is not in the form that to_text() writes. A known text was
// written by to_text(): its depth, repeated keys, escapes and large numbers are not checked.
class Scanner {
 public:
  Scanner(std::string_view text, bool is_known) : at_(text.data()), end_(at_ + text.size()), is_known_(is_known) {}

  bool all_members(std::vector<JsonObject::Member>& members) { return next('{') && object(&members, 1) && at_ == end_; }

 private:
  bool next(char c) { return at_ != end_ && *at_ == c && ++at_ != nullptr; }
  bool next(std::string_view word) {
    if (!std::string_view(at_, end_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool value(size_t depth) {
    if (next('"')) return text();
    if (next('{')) return object(nullptr, depth + 1);
    if (next('[')) return list(depth + 1);
    if (at_ != end_ && (*at_ == '-' || (*at_ >= '0' && *at_ <= '9'))) return number();
    return next("true") || next("false") || next("null");
  }

  bool object(std::vector<JsonObject::Member>* members, size_t depth) {
    if (!is_known_ && depth > kDeepest) return false;
    const size_t first = keys_.size();
    bool is_object = next('}');
    for (bool goes_on = !is_object; goes_on;) {
      const char* const begin = at_ + 1;
      if (!next('"') || !text()) return false;
      const std::string_view key(begin, at_ - 1);
      if (!next(':')) return false;
      const char* const from = at_;
      if (!is_new(key, first) || !value(depth)) return false;
      if (members != nullptr) members->push_back({key, {from, at_}});
      goes_on = next(',');
      is_object = !goes_on && next('}');
    }
    keys_.resize(first);
    return is_object;
  }

  bool is_new(std::string_view key, size_t first) {
    if (is_known_) return true;
    if (keys_.size() - first > kSearched) return false;
    if (std::find(keys_.begin() + static_cast<std::ptrdiff_t>(first), keys_.end(), key) != keys_.end()) return false;
    keys_.push_back(key);
    return true;
  }

  bool list(size_t depth) {
    if (!is_known_ && depth > kDeepest) return false;
    if (next(']')) return true;
    do {
      if (!value(depth)) return false;
    } while (next(','));
    return next(']');
  }

  // After the opening quote. Eight bytes at a time: the lowest bit that is set belongs to the first quote, backslash or
  // control character among them.
  bool text() {
    static_assert(std::endian::native == std::endian::little);
    constexpr uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
    for (;;) {
      uint64_t eight = kOnes * '"';
      std::memcpy(&eight, at_, std::min<size_t>(sizeof eight, end_ - at_));
      const uint64_t quote = eight ^ (kOnes * '"'), slash = eight ^ (kOnes * '\\');
      const uint64_t ends =
          (((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | ((eight - kOnes * ' ') & ~eight)) & kHigh;
      at_ += ends == 0 ? sizeof eight : static_cast<size_t>(std::countr_zero(ends)) / 8;
      if (ends == 0) continue;
      if (at_ >= end_) return false;
      if (next('"')) return true;
      if (!next('\\') || !escaped()) return false;
    }
  }

  // What has one form only, so that equal texts are equal here.
  bool escaped() {
    if (is_known_ && next('u')) return true;
    return at_ != end_ && std::string_view("\"\\bfnrt").find(*at_++) != std::string_view::npos;
  }

  bool digits() {
    const char* const begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin;
  }
  bool number() {
    constexpr std::ptrdiff_t kMost = 300;  // Longer ones, and those with an exponent, may be too large.
    const char* const begin = at_;
    next('-');
    if ((!next('0') && !digits()) || (next('.') && !digits())) return false;
    if (is_known_ && next('e')) return (next('+') || next('-') || true) && digits();
    return is_known_ || at_ - begin < kMost;
  }

  const char* at_;
  const char* end_;
  bool is_known_;
  std::vector<std::string_view> keys_;  // Of the open objects.
};

// The library does not check what its own allocator returns.
struct CheckedAllocator : rapidjson::CrtAllocator {
  void* Malloc(size_t size) { return checked(CrtAllocator::Malloc(size), size); }
  void* Realloc(void* old, size_t old_size, size_t size) {
    return checked(CrtAllocator::Realloc(old, old_size, size), size);
  }

 private:
  static void* checked(void* memory, size_t size) {
    return memory == nullptr && size != 0 ? throw std::bad_alloc() : memory;
  }
};

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, CheckedAllocator> reader;
  // Strings are unescaped in place. The reader loads up to sixteen bytes beyond the final zero byte.
  constexpr size_t kLoaded = 16;
  std::string copy;
  copy.reserve(text.size() + kLoaded);
  copy.append(text).append(kLoaded, '\0');
  rapidjson::InsituStringStream stream(copy.data());
  constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag;
  const rapidjson::ParseResult result =
      is_ascii(text) ? reader.Parse<kFlags>(stream, builder)
                     : reader.Parse<kFlags | rapidjson::kParseValidateEncodingFlag>(stream, builder);
  // The reader stops at any zero byte.
  if (result.IsError() || stream.Tell() != text.size()) {
    throw std::runtime_error(
        fmt::format("no JSON at byte {}: {}", result.IsError() ? result.Offset() : stream.Tell(),
                    result.IsError() ? rapidjson::GetParseError_En(result.Code()) : "A zero byte follows the value."));
  }
  return builder.take();
}

std::optional<JsonObject> JsonObject::read(std::string_view text) {
  JsonObject object;
  object.text_ = text;
  object.members_.reserve(kMembers);
  if (!is_ascii(text) || !Scanner(text, false).all_members(object.members_)) return std::nullopt;
  object.members_.shrink_to_fit();  // Records have many lines.
  return object;
}

JsonObject JsonObject::known(std::string_view text) {
  JsonObject object;
  object.text_ = text;
  if (!Scanner(text, true).all_members(object.members_)) object.members_.clear();
  return object;
}

std::string unquoted(std::string_view quoted) {
  if (quoted.find('\\') != quoted.npos) return parse_json(quoted).get<std::string>();
  return std::string(quoted.substr(1, quoted.size() - 2));
}

std::string JsonObject::Member::name() const { return unquoted(fmt::format("\"{}\"", key)); }

std::string JsonObject::text(std::string_view key) const {
  const Member* found = find(key);
  return found != nullptr && found->value.front() == '"' ? unquoted(found->value) : "";
}

std::optional<int> JsonObject::number(std::string_view key) const {
  const Member* found = find(key);
  if (found == nullptr) return std::nullopt;
  const auto number = number_in<int>(found->value);
  return number ? number : int_in(parse_json(found->value));
}

std::optional<double> JsonObject::real(std::string_view key) const {
  const Member* found = find(key);
  return found == nullptr ? std::nullopt : number_in<double>(found->value);
}

Json JsonObject::part(std::string_view key) const {
  const Member* found = find(key);
  return found == nullptr ? Json() : parse_json(found->value);
}

JsonObject JsonObject::object(std::string_view key) const {
  const Member* found = find(key);
  return found == nullptr ? JsonObject() : known(found->value);
}

std::optional<Json> try_parse_json(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace recapture
