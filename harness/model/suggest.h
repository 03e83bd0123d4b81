// Resolves words that name families, cases and tests, and suggests near names for unknown words.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "harness/model/release.h"

namespace recapture {

// All names. Tests are named as case.Test.
struct Names {
  std::vector<std::string> families, cases, tests;
};

// The known words near to a wrong one, best first, at most five: equal except for case and underscores
// ("ItemInCapture"), releases of the same line ("2.9.0"), words with this prefix ("2.11"), words with few typing errors
// ("itm_in_capture"), words that contain it.
std::vector<std::string> near(const std::string& word, const std::vector<std::string>& known);

// "there is no verb 'shwo'; did you mean show?", in one line; ends in `otherwise` if no name is near.
std::string unknown_name(const std::string& what, const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise = "");

// The families, cases or tests that a word names: itself, all matches of a glob such as "item*", or the case or family
// of a path such as "cases/sync/item_in_capture.cpp". Throws ExitError(Usage) with the nearest if none.
std::vector<std::string> named(const std::string& word, const Names& names);

// The case or family of a path: "item_in_capture" of "cases/sync/item_in_capture.cpp", "sync" of "cases/sync/".
std::string last_part(std::string path);

// Whether a word can name a release: a version, or a build without LibTorch.
bool can_be_release(const std::string& word);

// Whether it is a build without LibTorch: "cuda13".
bool is_without_libtorch(const std::string& word);

// "there are no records of 2.9.0; did you mean 2.9.1?", or, if there are none of its line, "…; the newest are 2.13.0,
// 2.14.1 and 2.15.0". The folder is named unless it is the tree's own.
std::string no_records_of(const std::string& release, const std::string& folder, const std::set<std::string>& others);

// The releases of ci/matrix.toml, those with records in reports/, and the builds without LibTorch.
std::vector<std::string> known_releases(const std::string& root);

// Resolves one of them, as resolve_release() does. Throws ExitError(Usage) with the nearest.
std::string known_release(const std::string& root, const std::string& word, const Yields& yields = nullptr);

}  // namespace recapture
