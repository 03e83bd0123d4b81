// Text from outside, as a terminal and a file of ours may show it.
#pragma once
#include <string>
#include <string_view>

namespace recapture {

// Control characters, line ends and marks that turn the direction of writing as escapes ("\x1b", "\n", "\u202e"), and
// bytes that are no UTF-8 as "\xff": what a test printed can neither steer a terminal nor pass for a line of ours.
std::string escape_control(std::string_view text);

// The same of its first line, and no longer than that: cut behind a word, unless that would lose half of it.
std::string truncated(const std::string& text, size_t most = 160);

// The same as a cell of a Markdown table, where it must be neither the cell's end nor HTML.
std::string escape_markdown(std::string_view text);

// The same as text or an attribute's value of HTML.
std::string escape_html(std::string_view text);

}  // namespace recapture
