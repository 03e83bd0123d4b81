// The enums that cases, records and verdicts share, with their spellings.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace recapture {

enum class Nature {
  Constraint,  // CUDA or LibTorch forbids it by design.
  Defect,      // A bug, fixed or not.
  Race,        // Depends on timing: has a rate.
};

enum class Fidelity {
  Verbatim,    // The document's own program.
  Translated,  // The same calls, in C++.
  Modelled,    // The mechanism rebuilt; the prose names what is left out.
  Simulated,   // Our own model raises the failure: the result depends on no release.
};

// When a test with a rate stops trying. A new rule needs its row in verdict/rate.cpp.
enum class StoppingRule {
  None,  // No rate.
  Captures300,
  LoaderStarts60,
  FixedCalls,
  CallsOnToTheFirst,
  SixProcesses,
  FirstFailureOr20Seconds,
  FirstFailureOr50,
};

// Gives tests the release of TransformerEngine that the run chose.
inline constexpr char kTransformerEngineVariable[] = "RECAPTURE_TRANSFORMER_ENGINE";

// What a test is for, by the first word of its name.
enum class Kind {
  Control,     // The same calls without the trigger; must hold.
  Reproduces,  // The documented calls; judged three ways.
  Fix,         // A documented remedy; must hold.
  Operator,    // An operator of PyTorch under capture: facts hold the result of each sample.
};

// What is broken on purpose, to check that a test can fail.
enum class Break {
  Nothing,
  Trigger,  // TRIGGER(…) is left out: Reproduces must be healthy.
  Value,    // The documented value is wrong: Reproduces must be different.
  Remedy,   // REMEDY(…) is left out: Fix must be broken.
};

// What an outcome does to the program that meets it.
enum class Effect {
  Works,          // Nothing.
  Warns,          // Goes on, with a warning.
  Raises,         // An exception, or an error code.
  SilentlyWrong,  // Goes on with wrong numbers, or without the requested work.
  Leaks,          // Goes on, and memory or another resource is lost.
  Crashes,        // The process ends.
  Hangs,          // Does not return.
};

namespace detail {
template <class E, size_t N>
std::optional<E> enum_of(const std::array<std::string_view, N>& words, std::string_view word) {
  for (size_t i = 0; i < N; ++i) {
    if (words[i] == word) return static_cast<E>(i);
  }
  return std::nullopt;
}
}  // namespace detail

inline constexpr std::array<std::string_view, 3> kNatures = {"constraint", "defect", "race"};
inline constexpr std::array<std::string_view, 4> kFidelities = {"verbatim", "translated", "modelled", "simulated"};
inline constexpr std::array<std::string_view, 4> kKinds = {"control", "reproduces", "fix", "operator"};
inline constexpr std::array<std::string_view, 4> kBreaks = {"nothing", "trigger", "value", "remedy"};

inline constexpr std::array<std::string_view, 7> kEffects = {"works", "warns",   "raises", "silently wrong",
                                                             "leaks", "crashes", "hangs"};

// As records have them.
inline constexpr std::array<std::string_view, 8> kStoppingRules = {
    "",
    "300 captures",
    "60 starts of a loader, each in a process of its own",
    "a fixed number of calls",
    "a number of calls, and where none showed it on to the first that does, up to twenty times as many",
    "six processes, each until it crashes or has begun 20,000 captures",
    "the first capture that fails, or 20 seconds",
    "the first capture that fails, or 50"};

inline std::string_view to_string(Nature nature) { return kNatures[static_cast<size_t>(nature)]; }
inline std::string_view to_string(Fidelity fidelity) { return kFidelities[static_cast<size_t>(fidelity)]; }
inline std::string_view to_string(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }
inline std::string_view to_string(Break broken) { return kBreaks[static_cast<size_t>(broken)]; }
inline std::string_view to_string(Effect effect) { return kEffects[static_cast<size_t>(effect)]; }
inline std::string_view to_string(StoppingRule rule) { return kStoppingRules[static_cast<size_t>(rule)]; }

inline std::optional<Nature> nature_of(std::string_view word) { return detail::enum_of<Nature>(kNatures, word); }
inline std::optional<StoppingRule> stopping_rule_of(std::string_view word) {
  return detail::enum_of<StoppingRule>(kStoppingRules, word);
}
inline std::optional<Effect> effect_of(std::string_view word) { return detail::enum_of<Effect>(kEffects, word); }
inline std::optional<Break> break_of(std::string_view word) { return detail::enum_of<Break>(kBreaks, word); }

// The first word of a test that runs a function of the case's program in Python: "PythonReproduces", "PythonFix…".
inline constexpr std::string_view kProgramPrefix = "Python";
inline bool is_of_program(std::string_view test_name) {
  return test_name.substr(0, kProgramPrefix.size()) == kProgramPrefix;
}

inline std::optional<Kind> kind_of(std::string_view test_name) {
  if (is_of_program(test_name)) test_name.remove_prefix(kProgramPrefix.size());
  if (test_name.substr(0, 7) == "Control") return Kind::Control;
  if (test_name.substr(0, 10) == "Reproduces") return Kind::Reproduces;
  if (test_name.substr(0, 3) == "Fix") return Kind::Fix;
  return std::nullopt;
}

// The case whose tests are operators, each by its own name.
inline constexpr std::string_view kOperatorsCase = "operators";

// Of a test of this case; nothing if no kind has the name's first word.
inline std::optional<Kind> kind_of(std::string_view case_id, std::string_view test_name) {
  return case_id == kOperatorsCase ? Kind::Operator : kind_of(test_name);
}

// Whether a break applies to tests of this kind.
inline bool is_breakable(Kind kind, Break broken) {
  return broken == Break::Remedy ? kind == Kind::Fix : kind == Kind::Reproduces || kind == Kind::Operator;
}

// The needs of a case: words in any order, such as "gpu python". "host" needs nothing.
struct Needs {
  int gpus = 0;        // "gpu" is one.
  bool ranks = false;  // "ranks" also implies one GPU; all GPUs of the run are available to the case's tests.
  bool python = false, nemo = false, transformer_engine = false;

  bool operator==(const Needs& other) const {
    return gpus == other.gpus && ranks == other.ranks && python == other.python && nemo == other.nemo &&
           transformer_engine == other.transformer_engine;
  }

  // Its words, as read() takes them.
  std::string words() const {
    std::string text = ranks ? "ranks" : gpus > 0 ? "gpu" : "host";
    if (python) text += " python";
    if (nemo) text += " nemo";
    if (transformer_engine) text += " transformer_engine";
    return text;
  }

  // Nothing if a word is unknown.
  static std::optional<Needs> read(std::string_view words) {
    Needs needs;
    for (size_t at = 0; at < words.size();) {
      const size_t end = std::min(words.find(' ', at), words.size());
      const std::string_view word = words.substr(at, end - at);
      if (word == "gpu") {
        needs.gpus = 1;
      } else if (word == "ranks") {
        needs.gpus = 1;
        needs.ranks = true;
      } else if (word == "python") {
        needs.python = true;
      } else if (word == "nemo") {
        needs.nemo = true;
      } else if (word == "transformer_engine") {
        needs.transformer_engine = true;
      } else if (word != "host" && !word.empty()) {
        return std::nullopt;
      }
      at = end + 1;
    }
    return needs;
  }
};

}  // namespace recapture
