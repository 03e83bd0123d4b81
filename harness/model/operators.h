// The PyTorch operators that are tried under capture, and replacements for those that cannot be captured:
// cases/operators/operators.tsv and instead.toml.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

struct Operator {
  std::string name;  // OpInfo's name with its variant: "linalg.pinv.hermitian".
  std::string call;  // The call in a program: "torch.linalg.pinv".

  std::string test() const;  // Its test's name: "linalg_pinv_hermitian".
};

struct Instead {
  std::string name;    // Of the operator.
  std::string call;    // The expression to use instead; "" if there is only advice.
  std::string advice;  // One sentence: what to do, or why there is no replacement.
};

// What a case shows of an operator and its own test cannot.
struct KnownOfOperator {
  std::string name;     // Of the operator.
  std::string why;      // "torch.where(condition) alone is nonzero()", "after PyTorch has dropped the FFT's plan".
  std::string case_id;  // Shows it.
};

// In the file's order. Throws ExitError(Usage) with file and line if it is not such a list.
std::vector<Operator> read_operators(const std::string& root);

// Throws ExitError(Usage) if an entry names an unknown operator, names one twice or has no advice.
std::vector<Instead> read_instead(const std::string& root, const std::vector<Operator>& operators);

// From cases/operators.toml, one for each operator of an entry: "untried", calls that none of the samples has and that
// cannot be captured; "later", after what a captured graph is not right. Throws ExitError(Usage) if an entry names an
// unknown operator.
std::vector<KnownOfOperator> read_known(const std::string& root, const char* what,
                                        const std::vector<Operator>& operators);

// The operators that a word names: "torch.linalg.inv", "linalg.inv", "inv", "F.one_hot", "Tensor.index_fill_",
// "aten.nonzero.default", "mask.nonzero()", "x[mask]", by name or call, so with all variants. Throws ExitError(Usage)
// with the nearest if none.
std::vector<const Operator*> named_operators(const std::string& word, const std::vector<Operator>& operators);

// The operators that a Python line calls: "y = torch.linalg.inv(a)", "F.one_hot(x)", "mask.nonzero()". Another object
// may have a method of that name, so a name alone proves nothing.
std::vector<const Operator*> called_operators(const std::string& line, const std::vector<Operator>& operators);

// The operator with this ATen name, with or without overload: "linalg_inv", "isin_Tensor_Tensor"; nullptr if none.
const Operator* aten_operator(std::string name, const std::vector<Operator>& operators);

// The recorded result of an operator that cannot be captured.
struct OperatorAnswer {
  std::string name;
  std::string line;    // From `recapture operators`: "torch.linalg.inv: refused in …; Call torch.linalg.inv_ex(A)."
  std::string advice;  // The part that names a replacement; "" for none.
};
struct OperatorAnswers {
  std::vector<Operator> known;                         // All operators that are tried.
  std::map<std::string, OperatorAnswer> not_captured;  // By name.

  // The answers for these operators, each once.
  std::vector<OperatorAnswer> of(const std::vector<const Operator*>& operators) const;
};

}  // namespace recapture
