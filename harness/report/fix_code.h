// The code of a test, as its reader would write it: without what only the suite needs.
#pragma once
#include <string>

namespace recapture::report {

// The body of a test in the case's source; "" if it is not found.
std::string body_of(const std::string& source, const std::string& test);

// The code of a Fix: its Python program, if the test has one that needs no value of the C++ around it, else its body
// without the remedy's markers and the checks of the captured nodes. "" if the test is not found. `is_python` is set
// for a program.
std::string fix_code(const std::string& source, const std::string& test, bool& is_python);

}  // namespace recapture::report
