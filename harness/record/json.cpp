#include "harness/record/json.h"

#include <set>
#include <stdexcept>
#include <vector>

namespace recapture {
namespace {

constexpr size_t kDeepest = 32;  // A culprit's frames, the deepest that we write, are at three.

}  // namespace

Json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> open;  // The keys of each object that is open; of an array none.
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (open.size() == kDeepest) throw std::runtime_error("it is nested too deep");
        open.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        open.pop_back();
        break;
      case Json::parse_event_t::key:
        if (const auto& key = parsed.get_ref<const std::string&>(); !open.back().insert(key).second) {
          throw std::runtime_error("it has '" + key + "' twice");
        }
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  return Json::parse(text, check);
}

std::optional<Json> try_parse_json(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace recapture
