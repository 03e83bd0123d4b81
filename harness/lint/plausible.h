// Checks that a record can be what it says: a run of a release that was out, on a GPU with a driver that can run it, by
// the code of this tree. What a record shows cannot be checked so.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/model/environment.h"

namespace recapture::lint {

struct KnownFacts {
  std::string now;                           // "2026-11-30T06:13:20Z". Empty: times are not checked.
  std::map<std::string, std::string> dates;  // By release the day of its first wheel, "2026-10-28".
  std::function<bool(const std::string& revision)> is_in_history;  // Of the tree; empty if it has no history.
};

// The dates in ci/matrix.toml.
std::map<std::string, std::string> release_dates(const std::string& root);

// A sentence for each contradiction, escaped.
std::vector<std::string> contradictions_in(const Environment& environment, const KnownFacts& known);

}  // namespace recapture::lint
