// The sentences about one test: what a line shows, how it contradicts itself, why its verdict is another. Everything
// that prints a test uses these.
#pragma once
#include <string>
#include <vector>

#include "harness/verdict/judge.h"

namespace recapture {

std::string to_string(const Contradiction& contradiction);
std::string to_string(const Reason& reason);
std::string to_string(const TestObservation& observation);

// The observation and each reason, as all outputs show it: "900; the recorder saw no call".
std::string render_observed(const TestVerdict& row);

// In one line: "captured", "forward refused by cuStreamSynchronize (900); out …".
std::string describe_operator(const std::vector<OperatorResult>& results);

// "refused by cuStreamSynchronize (900)", "refused: RuntimeError: Cannot copy …".
std::string describe_failure(const OperatorFailure& failure);

}  // namespace recapture
