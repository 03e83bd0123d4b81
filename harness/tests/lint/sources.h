// Checks that every citation in the tree has an entry in cases/sources.toml, that every entry is cited, and that a
// cited cause is old enough.
#pragma once
#include <string>
#include <vector>

namespace recapture::lint {

// One message for each error; empty if there is none. Errors are: an entry without a known kind, a title or a URL, a
// duplicate id, a citation without an entry, an entry that is not cited.
std::vector<std::string> source_errors(const std::string& root);

// One message for each error; empty if there is none. Errors are: a change of cases/expectations.toml whose number is
// not older than its release in `since`, or has no date in sources.toml. A release's day is the last on which a change
// can be part of it: its branch is cut weeks earlier.
std::vector<std::string> date_errors(const std::string& root);

}  // namespace recapture::lint
