#include "harness/judge/toml.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/exit.h"
#include "harness/record/file.h"
#include "harness/record/visible.h"

namespace recapture {

toml::table parse_toml(const std::string& path) {
  const std::string text = contents_of(path);
  try {
    return toml::parse(std::string_view(text), std::string_view(path));
  } catch (const toml::parse_error& e) {
    throw Stop(Exit::Usage, fmt::format("{}:{}: {}", path, e.source().begin.line, visible(e.description())));
  } catch (const std::exception& e) {
    throw Stop(Exit::Usage, fmt::format("{}: {}", path, visible(e.what())));
  }
}

std::string place_of(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

void only_keys(const toml::table& table, std::initializer_list<std::string_view> known, const std::string& place) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
      throw Stop(Exit::Usage, fmt::format("{}: unknown key '{}'", place, visible(key.str())));
    }
  }
}

std::string text_in(const toml::table& table, const char* key, const std::string& place, bool required) {
  const auto node = table[key];
  if (!node && !required) return "";
  if (!node) throw Stop(Exit::Usage, fmt::format("{}: needs '{}'", place, key));
  const auto* text = node.as_string();
  if (text == nullptr) throw Stop(Exit::Usage, fmt::format("{}: '{}' is no text", place, key));
  if (text->get().empty()) throw Stop(Exit::Usage, fmt::format("{}: '{}' is empty", place, key));
  return text->get();
}

std::vector<std::string> texts_in(const toml::table& table, const char* key, const std::string& place) {
  std::vector<std::string> texts;
  const auto node = table[key];
  if (!node) return texts;
  const auto* list = node.as_array();
  if (list == nullptr) throw Stop(Exit::Usage, fmt::format("{}: '{}' is no list of texts", place, key));
  for (const auto& each : *list) {
    const auto* text = each.as_string();
    if (text == nullptr || text->get().empty()) {
      throw Stop(Exit::Usage, fmt::format("{}: '{}' is no list of texts", place, key));
    }
    texts.push_back(text->get());
  }
  return texts;
}

const toml::array* tables_in(const toml::table& table, const char* key, const std::string& place,
                             const std::string& header) {
  const auto node = table[key];
  if (!node) return nullptr;
  const auto* list = node.as_array();
  const bool is_one = list != nullptr &&
                      std::all_of(list->begin(), list->end(), [](const toml::node& each) { return each.is_table(); });
  if (!is_one) throw Stop(Exit::Usage, fmt::format("{}: '{}' is not a table of its own; write {}", place, key, header));
  return list;
}

}  // namespace recapture
