// Whether everything that the tree cites has a line in cases/sources.toml, and is cited.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// One message each: an entry without a known kind, a title or a URL, an id twice, a citation of a case or of a change
// that no entry has, an entry that nothing cites. Empty is good.
std::vector<std::string> source_errors(const std::string& root);

}  // namespace recapture
