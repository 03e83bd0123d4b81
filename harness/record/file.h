// Whole files.
#pragma once
#include <string>

namespace recapture {

// Throws Stop(Usage) with the path and one reason. Anything but a regular file is refused: a pipe may never end, and
// /dev/zero does not.
std::string contents_of(const std::string& path);

// Makes the file, or puts the text in the place of what it had. Throws Stop(Infrastructure) where it cannot.
void write_file(const std::string& path, const std::string& text);

}  // namespace recapture
