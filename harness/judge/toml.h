// The tree's TOML files, read so that every mistake in them is one line with its place.
#pragma once
#include <stdexcept>

namespace recapture::detail {
[[noreturn]] inline void throw_unreadable() { throw std::runtime_error("it cannot be read as TOML"); }
}  // namespace recapture::detail

// What the parser asserts of itself does not hold for every file: "[&" would end the program.
#define TOML_ASSERT(expr) ((expr) ? void() : ::recapture::detail::throw_unreadable())
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

// A text member; "" where it may be absent and is. Throws Stop(Usage) where it may not, and where it is empty or no
// text.
std::string text_in(const toml::table& table, const char* key, const std::string& place, bool required = true);

// A list of texts; empty where it is absent. Throws Stop(Usage) where it is something else.
std::vector<std::string> texts_in(const toml::table& table, const char* key, const std::string& place);

// The tables below a header such as [[change]]; nullptr where there is none. Throws Stop(Usage) where the key holds
// anything else.
const toml::array* tables_in(const toml::table& table, const char* key, const std::string& place,
                             const std::string& header);

}  // namespace recapture
