// Keeps private data out of a bundle.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::triage {

// The parts of a text that show where and by whom it was made: paths of this machine, its name, its user, e-mail and
// network addresses, serial numbers. `known` are versions that look like an address. A name of this machine that is
// also a word of `everybodys` (a user called nvidia) reveals nothing.
std::vector<std::string> private_parts(const std::string& text, const std::vector<std::string>& known = {},
                                       const std::string& public_words = "");

// A program's output, with its working folder as "." and the packages' folder as "(site-packages)".
std::string without_places(std::string text, const std::string& folder);

// Versions in the record that look like an address.
std::vector<std::string> versions_in(const Record& record);

}  // namespace recapture::triage
