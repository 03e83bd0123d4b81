// What a stranger must not learn from a bundle.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"

namespace recapture::triage {

// The parts of a text that tell where and by whom it was made: paths of this machine, its name, its user, e-mail and
// network addresses, serial numbers. `known` are versions that look like an address. A name of this machine that is
// also a word of `everybodys` (a user called nvidia) reveals nothing.
std::vector<std::string> private_parts(const std::string& text, const std::vector<std::string>& known = {},
                                       const std::string& public_words = "");

// A text that a program printed, with the folder in which it ran as ".", and the packages' as "(site-packages)".
std::string without_places(std::string text, const std::string& folder);

// Words of the record that look like an address and are versions.
std::vector<std::string> versions_in(const Record& record);

}  // namespace recapture::triage
