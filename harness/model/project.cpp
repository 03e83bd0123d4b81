#include "harness/model/project.h"

#include <filesystem>

#include "harness/base/toml.h"

namespace recapture {

std::string project_address(const std::string& root) {
  const std::string path = root + "/project.toml";
  if (!std::filesystem::exists(path)) return {};  // A tree of a test, or of an older version.
  return parse_toml(path)["address"].value_or(std::string{});
}

}  // namespace recapture
