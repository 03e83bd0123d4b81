// The result of a test, from its observation.
#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "harness/case/types.h"

namespace recapture {

enum class Result {
  Reproduced,    // The documented failure, exactly.
  Healthy,       // No failure.
  Different,     // A failure other than the documented one.
  Unseen,        // A race that did not occur: no evidence either way.
  Holds,         // A control or a fix does what it should.
  Broken,        // It does not.
  Crashed,       // Ended by a signal before it reported an observation.
  Hung,          // Still running at its deadline.
  Unavailable,   // A requirement is not met here.
  Inapplicable,  // This LibTorch release has no such API.
  Invalid,       // The test itself is at fault, or ended without a report.
};

inline constexpr std::array<std::string_view, 11> kResults = {"reproduced",  "healthy",      "different", "unseen",
                                                              "holds",       "broken",       "crashed",   "hung",
                                                              "unavailable", "inapplicable", "invalid"};
inline std::string_view to_string(Result result) { return kResults[static_cast<size_t>(result)]; }
inline std::optional<Result> result_from(std::string_view text) { return detail::enum_of<Result>(kResults, text); }

}  // namespace recapture
