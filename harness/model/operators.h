// The operators of PyTorch that are tried under capture, and what can be captured in place of those that cannot:
// cases/operators/operators.tsv and instead.toml.
#pragma once
#include <map>
#include <string>
#include <string_view>
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

// Those that a line of Python calls: "y = torch.linalg.inv(a)", "F.one_hot(x)", "mask.nonzero()". A method may be one
// of another object, so a name alone proves nothing.
std::vector<const Operator*> called_operators(const std::string& line, const std::vector<Operator>& operators);

// The one that ATen calls so, with or without its overload: "linalg_inv", "isin_Tensor_Tensor"; nullptr if none.
const Operator* aten_operator(std::string name, const std::vector<Operator>& operators);

// What the records say of operators that cannot be captured.
struct OperatorAnswer {
  std::string name;
  std::string line;  // As `recapture operators` begins: "torch.linalg.inv: refused in …; Call torch.linalg.inv_ex(A)."
  std::string advice;  // The part of it that says what to capture instead, "" for none.
};
struct OperatorAnswers {
  std::vector<Operator> known;                         // All that are tried.
  std::map<std::string, OperatorAnswer> not_captured;  // By name.

  // Of these operators those that have an answer, each once.
  std::vector<OperatorAnswer> of(const std::vector<const Operator*>& operators) const;
};

}  // namespace recapture
