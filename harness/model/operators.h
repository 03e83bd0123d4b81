// The operators of PyTorch that are tried under capture, and what can be captured in place of those that cannot:
// cases/operators/operators.tsv and instead.toml.
#pragma once
#include <string>
#include <vector>

namespace recapture {

struct Operator {
  std::string name;  // As OpInfo has it, with its variant: "linalg.pinv.hermitian".
  std::string call;  // What a program calls: "torch.linalg.pinv".

  std::string test() const;  // Its test's name: "linalg_pinv_hermitian".
};

struct Instead {
  std::string name;    // Of the operator.
  std::string call;    // The expression that is tried in its place; "" where there is only advice.
  std::string advice;  // What to do, or why there is nothing, in a sentence.
};

// In the file's order. Throws ExitError(Usage) with file and line where it is no such list.
std::vector<Operator> read_operators(const std::string& root);

// Throws ExitError(Usage) where an entry names no operator, names one twice or has no advice.
std::vector<Instead> read_instead(const std::string& root, const std::vector<Operator>& operators);

// Those that a word means: "torch.linalg.inv", "linalg.inv", "F.one_hot", "Tensor.index_fill_", "one_hot", by name or
// by call, so with all variants. Throws ExitError(Usage) with the nearest if none.
std::vector<const Operator*> named_operators(const std::string& word, const std::vector<Operator>& operators);

}  // namespace recapture
