// What the project says of itself.
#pragma once
#include <string>

namespace recapture {

// The public address in project.toml below `root`; empty where there is none. Throws ExitError(Usage) if the file
// cannot be parsed.
std::string project_address(const std::string& root);

}  // namespace recapture
