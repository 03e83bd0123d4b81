#include "harness/model/tree.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "harness/case/source_hash.h"

namespace recapture {
namespace fs = std::filesystem;

namespace {

std::optional<std::string> contents(const fs::path& path) {
  std::error_code error;
  std::ifstream file;
  if (fs::is_regular_file(path, error)) file.open(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::map<std::string, TreeCase> cases_in_tree(const std::string& root, const std::set<std::string>& only) {
  std::map<std::string, TreeCase> cases;
  if (!fs::is_directory(root + "/cases")) return cases;
  std::map<std::string, std::optional<HashedSource>> known;  // Most cases share fixtures.
  const auto fixture = [&](const std::string& path) -> const std::optional<HashedSource>& {
    const auto [at, is_new] = known.try_emplace(path);
    if (is_new) {
      if (const auto text = contents(root + "/" + path)) at->second.emplace(*text);
    }
    return at->second;
  };
  for (const auto& entry : fs::recursive_directory_iterator(root + "/cases")) {
    const fs::path& path = entry.path();
    if (path.extension() != ".cpp" || (!only.empty() && only.count(path.stem().string()) == 0)) continue;
    const HashedSource source(contents(path).value_or(""));
    cases[path.stem().string()] = {path.parent_path().filename().string(), path.string(), source.hash,
                                   code_hash(source, fixture)};
  }
  return cases;
}

std::map<std::string, std::string> hashes_of_old_records(const std::string& root) {
  std::map<std::string, std::string> hashes;
  std::istringstream file(contents(root + "/reports/hashes.tsv").value_or(""));
  std::string line;
  std::getline(file, line);  // Skip the heading.
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string id, recorded, now;
    if (cells >> id >> recorded >> now) hashes[recorded] = now;
  }
  return hashes;
}

}  // namespace recapture
