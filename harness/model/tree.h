// The cases as the tree has them now, by their sources alone: nothing needs to be built.
#pragma once
#include <map>
#include <set>
#include <string>

namespace recapture {

struct TreeCase {
  std::string family;     // The folder below cases/.
  std::string path;       // The source file.
  std::string hash;       // Of the source alone, for records of format 1.
  std::string code = {};  // Of all that runs.
};

// By id: those of only, or all where it is empty. Empty if the tree has no cases.
std::map<std::string, TreeCase> cases_in_tree(const std::string& root, const std::set<std::string>& only = {});

// reports/hashes.tsv: records made before source_hash() left out includes and description have hashes of another kind.
// Gives for each of them source_hash() of the very source that they were made from.
std::map<std::string, std::string> hashes_of_old_records(const std::string& root);

}  // namespace recapture
