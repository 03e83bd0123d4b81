// Finds English in source code: folders that decide hold kinds and facts, and report/ has the words.
#pragma once
#include <string>
#include <vector>

namespace recapture::lint {

// The string literals of a C++ source with three or more English words, except in a statement that makes an error.
// Comments and raw strings (patterns) do not count; adjacent literals are one.
std::vector<std::string> english_in(const std::string& source);

}  // namespace recapture::lint
