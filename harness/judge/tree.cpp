#include "harness/judge/tree.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "harness/case/source_hash.h"

namespace recapture {
namespace fs = std::filesystem;

std::map<std::string, TreeCase> cases_in_tree(const std::string& root) {
  std::map<std::string, TreeCase> cases;
  if (!fs::is_directory(root + "/cases")) return cases;
  for (const auto& entry : fs::recursive_directory_iterator(root + "/cases")) {
    const fs::path& path = entry.path();
    if (path.extension() != ".cpp") continue;
    std::ifstream file(path, std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    cases[path.stem().string()] = {path.parent_path().filename().string(), path.string(), source_hash(source)};
  }
  return cases;
}

std::map<std::string, std::string> hashes_of_old_records(const std::string& root) {
  std::map<std::string, std::string> hashes;
  std::ifstream file(root + "/reports/hashes.tsv");
  std::string line;
  std::getline(file, line);  // The heading.
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string id, recorded, now;
    if (cells >> id >> recorded >> now) hashes[recorded] = now;
  }
  return hashes;
}

}  // namespace recapture
