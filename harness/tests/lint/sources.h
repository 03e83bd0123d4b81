// Whether everything that the tree cites has a line in cases/sources.toml, and is cited; and whether what is cited as a
// cause is old enough.
#pragma once
#include <string>
#include <vector>

namespace recapture::lint {

// One message each: an entry without a known kind, a title or a URL, an id twice, a citation of a case or of a change
// that no entry has, an entry that nothing cites. Empty is good.
std::vector<std::string> source_errors(const std::string& root);

// One message each: a change of cases/expectations.toml with a number that is not older than the release which it is
// `since`, or of which sources.toml has no date. The day of a release is the latest on which a change can have got into
// it: its branch is cut weeks earlier. Empty is good.
std::vector<std::string> date_errors(const std::string& root);

}  // namespace recapture::lint
