#include "harness/base/toml.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/text.h"

namespace recapture {

toml::table parse_toml(const std::string& path) {
  const std::string text = contents_of(path);
  try {
    return toml::parse(std::string_view(text), std::string_view(path));
  } catch (const toml::parse_error& e) {
    throw ExitError(Exit::Usage,
                    fmt::format("{}:{}: {}", path, e.source().begin.line, escape_control(e.description())));
  } catch (const std::exception& e) {
    throw ExitError(Exit::Usage, fmt::format("{}: {}", path, escape_control(e.what())));
  }
}

std::string place_of(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

void only_keys(const toml::table& table, std::initializer_list<std::string_view> known, const std::string& place) {
  for (const auto& [key, value] : table) {
    if (!contains(known, key.str())) {
      throw ExitError(Exit::Usage, fmt::format("{}: unknown key '{}'", place, escape_control(key.str())));
    }
  }
}

std::string text_in(const toml::table& table, const char* key, const std::string& place, bool required) {
  const auto node = table[key];
  if (!node && !required) return "";
  if (!node) throw ExitError(Exit::Usage, fmt::format("{}: needs '{}'", place, key));
  const auto* text = node.as_string();
  if (text == nullptr) throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a string", place, key));
  if (text->get().empty()) throw ExitError(Exit::Usage, fmt::format("{}: '{}' is empty", place, key));
  return text->get();
}

std::vector<std::string> texts_in(const toml::table& table, const char* key, const std::string& place) {
  std::vector<std::string> texts;
  const auto node = table[key];
  if (!node) return texts;
  const auto* list = node.as_array();
  if (list == nullptr) throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a list of strings", place, key));
  for (const auto& each : *list) {
    const auto* text = each.as_string();
    if (text == nullptr) throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a list of strings", place, key));
    if (text->get().empty()) throw ExitError(Exit::Usage, fmt::format("{}: '{}' has an empty name", place, key));
    texts.push_back(text->get());
  }
  return texts;
}

const toml::array* tables_in(const toml::table& table, const char* key, const std::string& place,
                             const std::string& header) {
  const auto node = table[key];
  if (!node) return nullptr;
  const auto* list = node.as_array();
  const bool is_one =
      list != nullptr && std::ranges::all_of(*list, [](const toml::node& each) { return each.is_table(); });
  if (!is_one)
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a table of its own; write {}", place, key, header));
  return list;
}

}  // namespace recapture
