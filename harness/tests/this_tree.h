// The source tree and the program that the tests are of.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace recapture {

// The variable names another tree with the same code: tools/add_release checks one with other records.
inline const std::string kRoot =
    std::getenv("RECAPTURE_ROOT") != nullptr ? std::getenv("RECAPTURE_ROOT") : RECAPTURE_ROOT;
inline const std::string kRecapture = "'" RECAPTURE_BUILD "/recapture' --root '" + kRoot + "'";

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace recapture
