// The version of the program.
#pragma once

namespace recapture::commands {

inline constexpr const char* kVersion = "1.1";  // Also in CMakeLists.txt; a test compares them.

}  // namespace recapture::commands
