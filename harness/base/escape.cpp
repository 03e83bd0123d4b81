#include "harness/base/escape.h"

#include <fmt/format.h>
#include <utf8cpp/utf8.h>

#include <algorithm>
#include <cstdint>

namespace recapture {
namespace {

// C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of direction.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

}  // namespace

std::string escape_control(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::ranges::all_of(text, is_plain)) return std::string(text);  // Nearly every text.
  std::string shown;
  for (const char* at = text.data(); at != text.data() + text.size();) {
    const char* const begin = at;
    try {
      const auto code = static_cast<uint32_t>(utf8::next(at, text.data() + text.size()));
      if (code == '\n' || code == '\t') {
        shown += code == '\n' ? "\\n" : "\\t";
      } else if (is_control(code)) {
        shown += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
      } else {
        shown.append(begin, at);
      }
    } catch (const utf8::exception&) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(*begin));
      at = begin + 1;
    }
  }
  return shown;
}

std::string truncated(const std::string& text, size_t most) {
  std::string line = escape_control(text.substr(0, text.find('\n')));
  if (line.size() <= most) return line;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // Not within a character.
  const size_t blank = line.find_last_of(' ', end);  // Nor within a word, unless it is a very long one.
  if (blank != std::string::npos && blank > end / 2) end = blank;
  return line.substr(0, end) + "...";
}

std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    const std::string_view instead = c == '|' ? "\\|" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : "";
    out += instead.empty() ? std::string(1, c) : std::string(instead);
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace recapture
