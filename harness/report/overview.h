// What a folder of records amounts to, in a page: a few lines a machine, what is not as expected, one last line.
#pragma once
#include <string>
#include <vector>

#include "harness/model/catalogue.h"
#include "harness/report/latest.h"

namespace recapture::report {

// The machines: on what and when, counts by verdict, notes.
std::string machines_text(const std::vector<OnMachine>& all);

// Every result that is red or could not be judged, by machine, with what was seen; the tests of a stale case in one
// line. Empty if there is none.
std::string surprises(const std::vector<OnMachine>& all);

// What there is no record of: by GPU the releases that there are, by machine the tests of the catalogue that no run of
// it has had, nor, of those that need no GPU, a run without one. Every other test has a verdict there. Of a chosen
// CUDA runtime and of runs without LibTorch or a GPU only what they are for is on record, and nothing is told. Empty if
// nothing lacks.
std::string gaps(const std::vector<OnMachine>& all, const std::vector<std::string>& matrix, const Catalogue& catalogue);

// How much was seen, and how much of it is not as expected. One line, always the last.
std::string last_line(const std::vector<OnMachine>& all);

// Of what is shown there.
std::vector<Verdict> verdicts_of(const std::vector<OnMachine>& all);

}  // namespace recapture::report
