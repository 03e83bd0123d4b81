// What a user meant: words that name families, cases and tests, and for a word that names nothing those that are near.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace recapture {

// What can be named. Tests are named as case.Test.
struct Names {
  std::vector<std::string> families, cases, tests;
};

// The known words that a wrong one is near to, best first, five at most: the same but for case and underscores
// ("ItemInCapture"), releases of the same line ("2.9.0"), what it begins ("2.11"), what few slips lead to
// ("itm_in_capture"), what it is a part of.
std::vector<std::string> near(const std::string& word, const std::vector<std::string>& known);

// "there is no verb 'shwo'; did you mean show?", in one line; `otherwise` stands there where nothing is near.
std::string unknown_name(const std::string& what, const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise = "");

// The families, cases or tests that a word names: itself, all that a glob such as "item*" matches, or the case or
// family that a path such as "cases/sync/item_in_capture.cpp" leads to. Throws ExitError(Usage) with the nearest if
// none.
std::vector<std::string> named(const std::string& word, const Names& names);

// The case or family that a path leads to: "item_in_capture" of "cases/sync/item_in_capture.cpp", "sync" of
// "cases/sync/".
std::string last_part(std::string path);

// The release that is meant of those that are known: "2.6.0" by "2.6", the newest that begins so, and by "2.6.0+cu124",
// as torch.__version__ has it. The word itself where it is known or means none.
std::string resolve_release(const std::string& word, const std::vector<std::string>& known);

// Whether a word can name a release: a version, or a build without LibTorch.
bool can_be_release(const std::string& word);

// Whether it is a build without LibTorch: "cuda13".
bool is_without_libtorch(const std::string& word);

// "there are no records of 2.9.0 below reports; did you mean 2.9.1? `ci/suite` makes those of any release on PyPI", or,
// where there are none of its line, the six next to it: "…, but of 2.6.0, 2.11.0; `ci/suite` makes …".
std::string no_records_of(const std::string& release, const std::string& folder, const std::set<std::string>& others);

// Those of ci/matrix.toml, those on record in reports/, and the builds without LibTorch.
std::vector<std::string> known_releases(const std::string& root);

// The one that is meant of them. Throws ExitError(Usage) with the nearest.
std::string known_release(const std::string& root, const std::string& word);

}  // namespace recapture
