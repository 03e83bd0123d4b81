// Verdicts for continuous integration: JUnit XML, a suite a case.
#pragma once
#include <iosfwd>
#include <vector>

#include "harness/judge/board.h"

namespace recapture {

void write_junit(const Judged& judged, std::ostream& out);

// The same into a file. Throws Stop(Infrastructure) if it cannot be written.
void write_junit_file(const Judged& judged, const std::string& path);

}  // namespace recapture
