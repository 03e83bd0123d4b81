// What a folder of records amounts to, in a page: a few lines a machine, what is not as expected, one last line.
#pragma once
#include <string>
#include <vector>

#include "harness/report/latest.h"

namespace recapture::report {

// The machines: on what and when, counts by verdict, notes.
std::string machines_text(const std::vector<OnMachine>& all);

// Every result that is red or could not be judged, by machine, with what was seen; the tests of a stale case in one
// line. Empty if there is none.
std::string surprises(const std::vector<OnMachine>& all);

// How much was seen, and how much of it is not as expected. One line, always the last.
std::string last_line(const std::vector<OnMachine>& all);

// Of what is shown there.
std::vector<Verdict> verdicts_of(const std::vector<OnMachine>& all);

}  // namespace recapture::report
