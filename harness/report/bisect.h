// Timelines of a test over releases, as text and JSON.
#pragma once
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/timeline/bisect.h"

namespace recapture::report {

// "2.7.1, 2.8.0" or "2.7.1 to 2.10.0": the sides in between, which have no result.
std::string between(const timeline::Transition& border, const std::vector<compare::Side>& sides);

// What changed at a border.
std::string sentence_of(const timeline::Transition& border, const std::vector<compare::Side>& sides);

// How certain a change's first release is, by the two sides of a border: bounded by both, a guess among the sides in
// between, or contradicted.
std::string bounds_of(const std::string& since, const timeline::Transition& border,
                      const std::vector<compare::Side>& sides);

std::string render_text(const timeline::MachineTimeline& one);
Json render_json(const timeline::MachineTimeline& one);

}  // namespace recapture::report
