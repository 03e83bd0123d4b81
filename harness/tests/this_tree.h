// The source tree and the program that the tests are of.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace recapture {

inline const std::string kRoot = RECAPTURE_ROOT;
inline const std::string kRecapture = "'" RECAPTURE_BUILD "/recapture' --root '" RECAPTURE_ROOT "'";

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace recapture
