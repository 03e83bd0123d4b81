// The cases whose tests are operators of PyTorch, each by its own name.
#pragma once
#include <optional>
#include <string_view>

#include "harness/case/types.h"

namespace recapture {

// Asks whether the graph of a captured operator stays right after what programs do between two replays. Beside the
// operators it has tests of the other kinds, on planted operators.
inline constexpr std::string_view kLaterCase = "operators_later";

inline bool lists_operators(std::string_view case_id) { return case_id == kOperatorsCase || case_id == kLaterCase; }

// Of a test of any case; nothing if no kind has the name's first word.
inline std::optional<Kind> kind_of_test(std::string_view case_id, std::string_view test_name) {
  const auto kind = kind_of(case_id, test_name);
  return kind || case_id != kLaterCase ? kind : Kind::Operator;
}

}  // namespace recapture
