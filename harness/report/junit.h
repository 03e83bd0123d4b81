// Verdicts for continuous integration: JUnit XML, a suite a case.
#pragma once
#include <iosfwd>
#include <vector>

#include "harness/verdict/result_matrix.h"

namespace recapture::report {

void write_junit(const JudgedRun& judged, std::ostream& out);

// The same into a file. Throws ExitError(Infrastructure) if it cannot be written.
void write_junit_file(const JudgedRun& judged, const std::string& path);

}  // namespace recapture::report
