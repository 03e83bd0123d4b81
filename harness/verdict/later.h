// What an operator's test of the case operators_later recorded: after which actions its graph was not right. From the
// fact that fixtures/python/operators_later.h records.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/verdict/operators.h"

namespace recapture {

struct LaterFailure {
  std::string action;
  std::string how;   // "wrong", "writes" (to memory that is not the graph's), "replay" (it failed), "crashed", "hung".
  std::string text;  // Where the values differ, or a message.
};

struct LaterResult {
  std::vector<std::string> asked, wrong;    // Actions: all, and those after which a replay was wrong or failed.
  std::vector<LaterFailure> failures = {};  // In the order of `wrong`, as far as they are recorded.
  // Whether an action alone shows it too, in a process of its own. What one process has seen may be values that vary
  // from replay to replay, such as sums of float16 in any order.
  bool is_confirmed = true;
};

// Nothing if the test has no such fact, or if no graph could be asked.
std::optional<LaterResult> later_result(const TestRecord& test);

// On a program that does one of the actions: the worst. Nothing if what was wrong is not confirmed.
std::optional<Effect> effect_of_later(const LaterResult& result);

// For the judge, as read_operator() is for the case operators.
OperatorReading read_later(const std::optional<LaterResult>& result);

}  // namespace recapture
