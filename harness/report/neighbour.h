// What no record has of a run's release and machine, and whose expectations count there.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/judge.h"

namespace recapture::report {

// A sentence about the release and one about the machine, with the number of results that are as expected there; none
// if no expectation is a guess and the machine is on record.
std::vector<std::string> neighbour_notes(const Environment& environment, const Neighbour& neighbour,
                                         const std::vector<const TestVerdict*>& rows);

// The same, a line each.
std::string render_neighbour(const Environment& environment, const Neighbour& neighbour,
                             const std::vector<TestVerdict>& rows);

}  // namespace recapture::report
