#include "harness/model/operators.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"
#include "harness/model/suggest.h"

namespace recapture {
namespace {

constexpr std::array<std::string_view, 13> kPrefixes = {"torch.nn.functional.",
                                                        "torch.ops.aten.",
                                                        "torch.Tensor.",
                                                        "torch.",
                                                        "aten::",
                                                        "aten.",
                                                        "at::",
                                                        ".",
                                                        "nn.functional.",
                                                        "functional.",
                                                        "F.",
                                                        "Tensor.",
                                                        "x."};

// Removes a call's namespace.
std::string bare(std::string name) {
  if (const size_t paren = name.find('('); paren != std::string::npos) name.erase(paren);
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view prefix : kPrefixes) {
      if (name.compare(0, prefix.size(), prefix) != 0) continue;
      name.erase(0, prefix.size());
      found = true;
      break;
    }
  }
  return name;
}

// The in-place variant counts as the operator.
std::string without_underscore(std::string name) {
  if (name.size() > 2 && name.back() == '_' && name[name.size() - 2] != '_') name.pop_back();
  return name;
}

// The operator in Python that calls another one of ATen's.
std::string caller_of(const std::string& aten) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kCallers = {{{"_local_scalar_dense", "item"},
                                                                                      {"_unique", "unique"},
                                                                                      {"_unique2", "unique"},
                                                                                      {"index_tensor", "__getitem__"},
                                                                                      {"index", "__getitem__"},
                                                                                      {"_index_put_impl", "index_put"},
                                                                                      {"_to_copy", "to"},
                                                                                      {"inverse", "linalg.inv"},
                                                                                      {"nonzero_numpy", "nonzero"}}};
  for (const auto& [callee, caller] : kCallers) {
    if (aten == callee) return std::string(caller);
  }
  return "";
}

// "nn.BatchNorm2d" as functions are spelled: "batch_norm2d".
std::string as_function(const std::string& module) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  std::string name;
  for (size_t i = 0; i < module.size(); ++i) {
    const bool begins_word =
        i > 0 && is_upper(module[i]) && (is_lower(module[i - 1]) || (i + 1 < module.size() && is_lower(module[i + 1])));
    if (begins_word) name += '_';
    name += module[i];
  }
  return lower_case(name);
}

// For "nn.Embedding": what its forward() calls, by the name.
std::string about_module(const std::string& module, const std::vector<Operator>& operators) {
  static const RE2 kEnd(R"(_loss$|[123]d$)");
  std::vector<std::string> functions;
  for (const Operator& one : operators) {
    constexpr std::string_view kFunctional = "torch.nn.functional.";
    if (one.call.compare(0, kFunctional.size(), kFunctional) == 0) {
      add_once(functions, one.call.substr(kFunctional.size()));
    }
  }
  const std::string name = as_function(module);
  std::string shorter = name;
  RE2::Replace(&shorter, kEnd, "");
  std::vector<std::string> found;
  for (const std::string& wanted : {name, shorter}) {
    if (found.empty() && contains(functions, wanted)) found = {wanted};
  }
  if (found.empty()) found = near(name, functions);
  std::string text = "nn." + module + " is a module; ask for what its forward() calls";
  for (size_t i = 0; i < found.size(); ++i) text += (i == 0 ? ", such as F." : " or F.") + found[i];
  return text;
}

// Whether the text before a call's name is torch or may be a tensor: "torch.linalg", "F", "mask".
enum class Owner { Torch, Tensor, Other };
Owner owner_of(const std::string& before) {
  constexpr std::array<std::string_view, 6> kTorch = {"torch", "torch.nn.functional", "nn.functional", "functional",
                                                      "F",     "torch.Tensor"};
  constexpr std::array<std::string_view, 12> kOthers = {"np",   "numpy", "math", "random",    "jnp",   "jax.numpy",
                                                        "cupy", "cp",    "os",   "itertools", "scipy", "operator"};
  if (contains(kTorch, before)) return Owner::Torch;
  for (const std::string_view other : kOthers) {
    if (before == other || before.rfind(std::string(other) + ".", 0) == 0) return Owner::Other;
  }
  return before.empty() ? Owner::Other : Owner::Tensor;
}

}  // namespace

std::string Operator::test() const {
  std::string test = name;
  std::replace(test.begin(), test.end(), '.', '_');
  return test;
}

std::vector<Operator> read_operators(const std::string& root) {
  const std::string path = root + "/cases/operators/operators.tsv";
  std::istringstream lines(contents_of(path));
  std::vector<Operator> operators;
  std::set<std::string> tests;
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (number == 1) continue;  // Skip the heading.
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || tab == 0 || tab + 1 == line.size()) {
      throw ExitError(Exit::Usage, fmt::format("{}:{}: not an operator, a tab and its call", path, number));
    }
    operators.push_back({line.substr(0, tab), line.substr(tab + 1)});
    if (!tests.insert(operators.back().test()).second) {
      throw ExitError(Exit::Usage, fmt::format("{}:{}: {} is there twice", path, number, operators.back().name));
    }
  }
  return operators;
}

std::vector<Instead> read_instead(const std::string& root, const std::vector<Operator>& operators) {
  const std::string path = root + "/cases/operators/instead.toml";
  const toml::table file = parse_toml(path);
  only_keys(file, {"instead"}, path);
  std::vector<Instead> all;
  std::set<std::string> names;
  const toml::array* entries = tables_in(file, "instead", path, "[[instead]]");
  if (entries == nullptr) return all;
  for (const toml::node& node : *entries) {
    const toml::table& entry = *node.as_table();
    const std::string place = place_of(path, entry);
    only_keys(entry, {"operator", "operators", "call", "advice"}, place);
    const std::string call = text_in(entry, "call", place, false), advice = text_in(entry, "advice", place);
    std::vector<std::string> meant = texts_in(entry, "operators", place);
    if (meant.empty() || !call.empty()) meant = {text_in(entry, "operator", place)};
    for (const std::string& name : meant) {
      const auto is_it = [&](const Operator& one) { return one.name == name; };
      if (std::ranges::none_of(operators, is_it)) {
        throw ExitError(Exit::Usage, fmt::format("{}: there is no operator '{}' in operators.tsv", place, name));
      }
      if (!names.insert(name).second) throw ExitError(Exit::Usage, fmt::format("{}: {} is there twice", place, name));
      all.push_back({name, call, advice});
    }
  }
  return all;
}

std::vector<KnownOfOperator> read_known(const std::string& root, const char* what,
                                        const std::vector<Operator>& operators) {
  const std::string path = root + "/cases/operators.toml";
  std::vector<KnownOfOperator> all;
  if (!std::filesystem::exists(path)) return all;
  const toml::table file = parse_toml(path);
  const toml::array* entries = tables_in(file, what, path, fmt::format("[[{}]]", what));
  if (entries == nullptr) return all;
  for (const toml::node& node : *entries) {
    const toml::table& entry = *node.as_table();
    const std::string place = place_of(path, entry);
    only_keys(entry, {"operator", "operators", "why", "case"}, place);
    std::vector<std::string> names = texts_in(entry, "operators", place);
    if (names.empty()) names = {text_in(entry, "operator", place)};
    for (const std::string& name : names) {
      if (std::ranges::none_of(operators, [&](const Operator& one) { return one.name == name; })) {
        throw ExitError(Exit::Usage, fmt::format("{}: there is no operator '{}' in operators.tsv", place, name));
      }
      all.push_back({name, text_in(entry, "why", place), text_in(entry, "case", place)});
    }
  }
  return all;
}

std::vector<const Operator*> named_operators(const std::string& word, const std::vector<Operator>& operators) {
  std::vector<const Operator*> found;
  const auto take = [&](const auto& is_meant) {
    for (const Operator& one : operators) {
      if (found.size() < operators.size() && is_meant(one)) found.push_back(&one);
    }
    return !found.empty();
  };
  static const RE2 kModule(R"((?:torch\.)?nn\.(?:modules\.)?(?:\w+\.)*([A-Z]\w*)(?:\(.*)?)"),
      kConversion(R"((?:int|float|bool|complex)\(.*)"), kIndexed(R"([\w.]+\[.*\])"),
      kOfAten(R"((?:torch\.ops\.)?aten\..*|at(?:en)?::.*)");
  std::string module;
  if (RE2::FullMatch(word, kModule, &module)) throw ExitError(Exit::Usage, about_module(module, operators));
  const std::string wanted = bare(word);
  const auto is_last_part = [&](const Operator& one) {
    const size_t dot = one.call.rfind('.');
    return dot != std::string::npos && one.call.compare(dot + 1, std::string::npos, wanted) == 0;
  };
  if (RE2::FullMatch(word, kConversion)) {  // Python's, and not Tensor.int().
    throw ExitError(Exit::Usage, unknown_name("record of an operator", word, {}));
  }
  if (take([&](const Operator& one) { return one.name == word || one.test() == word; })) return found;
  if (take([&](const Operator& one) { return bare(one.name) == wanted || bare(one.call) == wanted; })) return found;
  const std::string plain = without_underscore(wanted);
  if (take([&](const Operator& one) {
        return without_underscore(bare(one.call)) == plain || bare(one.name) == plain;
      })) {
    return found;
  }
  const Operator* of_aten =
      RE2::FullMatch(word, kOfAten) || !caller_of(wanted).empty() ? aten_operator(wanted, operators) : nullptr;
  if (of_aten != nullptr && take([&](const Operator& one) { return one.call == of_aten->call; })) return found;
  const std::string call = word.find('(') == std::string::npos ? word + "()" : word;
  if (auto called = called_operators(call, operators); !called.empty()) return called;
  if (RE2::FullMatch(word, kIndexed) && take([](const Operator& one) { return one.name == "__getitem__"; })) {
    return found;
  }
  if (take(is_last_part)) return found;
  std::vector<std::string> known;
  std::set<std::string> seen;
  for (const Operator& one : operators) {
    for (const std::string& name : {bare(one.name), one.name}) {
      if (seen.insert(name).second) known.push_back(name);
    }
  }
  throw ExitError(Exit::Usage, unknown_name("record of an operator", wanted, known));
}

std::vector<const Operator*> called_operators(const std::string& line, const std::vector<Operator>& operators) {
  static const RE2 kCall(R"(((?:[A-Za-z_]\w*\.)*|[)\]]\.)([A-Za-z_]\w*)\()");
  std::vector<const Operator*> found;
  std::string before, name;
  for (re2::StringPiece rest = line; RE2::FindAndConsume(&rest, kCall, &before, &name);) {
    if (!before.empty()) before.pop_back();
    const std::string path = without_underscore(bare(fmt::format("{}.{}", before, name)));
    const Owner owner = owner_of(before);
    for (const Operator& one : operators) {
      const std::string call = without_underscore(bare(one.call));
      const bool is_dotted = call.find('.') != std::string::npos;
      const bool is_it = owner == Owner::Tensor ? call == path || (!is_dotted && call == without_underscore(name))
                                                : owner == Owner::Torch && call == path;
      if (!is_it) continue;
      found.push_back(&one);
      break;  // Its variants have the same call.
    }
  }
  return found;
}

const Operator* aten_operator(std::string name, const std::vector<Operator>& operators) {
  const auto find = [&](const std::string& wanted) -> const Operator* {
    const std::string caller = caller_of(wanted);
    for (const Operator& one : operators) {
      std::string call = bare(one.call);
      std::replace(call.begin(), call.end(), '.', '_');
      if (without_underscore(call) == wanted || one.test() == wanted || one.name == caller) return &one;
    }
    return nullptr;
  };
  name = lower_case(name);
  // An overload follows a point or an underscore, and may contain underscores.
  std::replace(name.begin(), name.end(), '.', '_');
  for (name = without_underscore(name); !name.empty();) {
    if (const Operator* one = find(name)) return one;
    const size_t last = name.rfind('_');
    if (last == std::string::npos || last == 0) break;
    name.erase(last);
  }
  return nullptr;
}

std::vector<OperatorAnswer> OperatorAnswers::of(const std::vector<const Operator*>& operators) const {
  std::vector<OperatorAnswer> answers;
  std::set<std::string> seen;
  for (const Operator* one : operators) {
    if (one == nullptr) continue;
    const auto found = not_captured.find(one->name);
    if (found != not_captured.end() && seen.insert(one->name).second) answers.push_back(found->second);
  }
  return answers;
}

}  // namespace recapture
