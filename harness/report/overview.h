// A folder of records on one page: a few lines for each machine, what is unexpected, and a last line with totals.
#pragma once
#include <string>
#include <vector>

#include "harness/report/latest.h"

namespace recapture::report {

// The machines: environment and date, counts by verdict, notes.
std::string machines_text(const std::vector<OnMachine>& all);

// Every result that is red or could not be judged, by machine, with its observation; the tests of a stale case in one
// line. Empty if there is none.
std::string surprises(const std::vector<OnMachine>& all);

// What needs no judgement, by machine and reason. Empty if there is none.
std::string accepted_text(const std::vector<OnMachine>& all);

// How many results there are, and how many are unexpected. One line, always the last.
std::string last_line(const std::vector<OnMachine>& all);

// The verdicts of what is shown.
std::vector<Verdict> verdicts_of(const std::vector<OnMachine>& all);

}  // namespace recapture::report
