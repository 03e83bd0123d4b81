// Escapes text from outside for a terminal or one of our files.
#pragma once
#include <string>
#include <string_view>

namespace recapture {

// Escapes control characters, line ends and marks of text direction ("\x1b", "\n", "\u202e"), and bytes that are not
// UTF-8 as "\xff": a test's output can neither control the terminal nor imitate one of our lines.
std::string escape_control(std::string_view text);

// The first line, escaped, of at most `most` characters; cut after a word unless that would lose half of it.
std::string truncated(const std::string& text, size_t most = 160);

// Escapes a cell of a Markdown table: no character may end the cell or be read as HTML.
std::string escape_markdown(std::string_view text);

// Escapes HTML text or an attribute's value.
std::string escape_html(std::string_view text);

}  // namespace recapture
