// A run's result, at its end.
#pragma once
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/run/run.h"
#include "harness/verdict/judge.h"

namespace recapture::report {

// The unexpected results, each with its reason, and what to do next. Empty if there is none.
std::string render_surprises(const Record& record, const std::vector<TestVerdict>& rows);

// The run's duration and, if it was measured, what bounds it. Empty if no test was started.
std::string render_pace(const run::Pace& pace);

}  // namespace recapture::report
