// The difference between the failure and a fix of a case's program in Python, as a reader would mark it.
#pragma once
#include <string>
#include <vector>

namespace recapture::report {

// Lines as of `diff -U1`, without its headings: " " before what both have, "-" before a line of fails(), "+" before one
// of the fix. Comments and marks are left out. Up to `most` lines, those that follow a difference come first, then
// those before it. Where they differ by more than a screen, it is the fix against what its marks replace. Empty if one
// of the functions is missing.
std::vector<std::string> program_diff(const std::string& program, const std::string& fix, size_t most);

}  // namespace recapture::report
