// Reading a whole file.
#pragma once
#include <string>

namespace recapture {

// Throws Stop(Usage) with the path and one reason. Anything but a regular file is refused: a pipe may never end, and
// /dev/zero does not.
std::string contents_of(const std::string& path);

}  // namespace recapture
