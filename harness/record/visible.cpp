#include "harness/record/visible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace recapture {
namespace {

// A character of UTF-8: its code, and how many bytes it takes; none of what is no UTF-8.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(text[at + i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 && first < 0xf5   ? 4
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xc2 && first < 0xe0 ? 2
                                                       : 0;
  if (bytes == 0 || at + bytes > text.size()) return {};
  uint32_t code = first & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool is_none = too_long || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
  return is_none ? Character{} : Character{code, bytes};
}

// C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of direction.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

}  // namespace

std::string visible(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);  // Nearly every text.
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (bytes == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (code == '\n' || code == '\t') {
      shown += code == '\n' ? "\\n" : "\\t";
    } else if (is_control(code)) {
      shown += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    } else {
      shown += text.substr(at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  return shown;
}

std::string cut(const std::string& text, size_t most) {
  std::string line = visible(text.substr(0, text.find('\n')));
  if (line.size() <= most) return line;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // Not within a character.
  const size_t blank = line.find_last_of(' ', end);  // Nor within a word, unless it is a very long one.
  if (blank != std::string::npos && blank > end / 2) end = blank;
  return line.substr(0, end) + "...";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : visible(text)) {
    const std::string_view instead = c == '|' ? "\\|" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : "";
    out += instead.empty() ? std::string(1, c) : std::string(instead);
  }
  return out;
}

}  // namespace recapture
