// What a user meant: words that name families, cases and tests, and for a word that names nothing those that are near.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// What can be named. Tests are named as case.Test.
struct Names {
  std::vector<std::string> families, cases, tests;
};

// The known words that a wrong one is near to, best first, five at most: the same but for case and underscores
// ("ItemInCapture"), what it begins ("2.11"), what few slips lead to ("itm_in_capture"), what it is a part of.
std::vector<std::string> near(const std::string& word, const std::vector<std::string>& known);

// "there is no verb 'shwo'; did you mean show?", in one line; `otherwise` stands there where nothing is near.
std::string no_such(const std::string& what, const std::string& word, const std::vector<std::string>& known,
                    const std::string& otherwise = "");

// The families, cases or tests that a word names: itself, all that a glob such as "item*" matches, or the case or
// family that a path such as "cases/sync/item_in_capture.cpp" leads to. Throws Stop(Usage) with the nearest if none.
std::vector<std::string> named(const std::string& word, const Names& names);

// The case or family that a path leads to: "item_in_capture" of "cases/sync/item_in_capture.cpp", "sync" of
// "cases/sync/".
std::string last_part(std::string path);

// Throws Stop(Usage) with the nearest if neither ci/matrix.toml nor the builds without LibTorch have such a release.
void require_known_release(const std::string& root, const std::string& release);

}  // namespace recapture
