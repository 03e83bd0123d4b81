// The cases in the tree, from their sources: no build is needed.
#pragma once
#include <map>
#include <set>
#include <string>

namespace recapture {

struct TreeCase {
  std::string family;     // The folder below cases/.
  std::string path;       // The source file.
  std::string hash;       // Of the source alone, for records of format 1.
  std::string code = {};  // Of all code that runs.
};

// By id: the cases in `only`, or all if it is empty. Empty if the tree has no cases.
std::map<std::string, TreeCase> cases_in_tree(const std::string& root, const std::set<std::string>& only = {});

// reports/hashes.tsv: for records made before source_hash() left out includes and the description, source_hash() of the
// same source, by the old hash.
std::map<std::string, std::string> hashes_of_old_records(const std::string& root);

}  // namespace recapture
