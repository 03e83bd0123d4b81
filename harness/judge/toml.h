// The tree's TOML files, read so that every mistake in them is one line with its place.
#pragma once
#include <toml++/toml.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace recapture {

// Throws Stop(Usage) naming file and line where it cannot be parsed.
toml::table parse_toml(const std::string& path);

// "file:line" of a table in it.
std::string place_of(const std::string& path, const toml::node& node);

// Throws Stop(Usage) where the table has another key.
void only_keys(const toml::table& table, std::initializer_list<std::string_view> known, const std::string& place);

// A text member; "" where it may be absent. Throws Stop(Usage) where it may not.
std::string text_in(const toml::table& table, const char* key, const std::string& place, bool required = true);

// A list of texts; empty where it is absent.
std::vector<std::string> texts_in(const toml::table& table, const char* key);

}  // namespace recapture
