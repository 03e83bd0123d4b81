#include "harness/judge/toml.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/exit.h"

namespace recapture {

toml::table parse_toml(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    throw Stop(Exit::Usage, fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
  }
}

std::string place_of(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

void only_keys(const toml::table& table, std::initializer_list<std::string_view> known, const std::string& place) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end()) {
      throw Stop(Exit::Usage, fmt::format("{}: unknown key '{}'", place, key.str()));
    }
  }
}

std::string text_in(const toml::table& table, const char* key, const std::string& place, bool required) {
  const auto value = table[key].value<std::string>();
  if (required && (!value || value->empty())) throw Stop(Exit::Usage, fmt::format("{}: needs '{}'", place, key));
  return value.value_or("");
}

std::vector<std::string> texts_in(const toml::table& table, const char* key) {
  std::vector<std::string> texts;
  if (const auto* list = table[key].as_array()) {
    for (const auto& text : *list) texts.push_back(text.value_or(std::string()));
  }
  return texts;
}

}  // namespace recapture
