// The words that cases, records and verdicts share, each as a type with its one spelling.
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
  Race,        // Depends on timing: it has a rate, not an answer.
};

enum class Fidelity {
  Verbatim,    // The document's own program.
  Translated,  // The same calls, in C++.
  Modelled,    // The mechanism rebuilt; the prose says what is left out.
  Simulated,   // A model of ours raises the failure itself: what it shows depends on no release.
};

// Tests have the release of TransformerEngine that a run chose in this variable.
inline constexpr char kTransformerEngineVariable[] = "RECAPTURE_TRANSFORMER_ENGINE";

// What a test is for, by the first word of its name.
enum class Kind {
  Control,     // The same calls without the trigger; must hold.
  Reproduces,  // The documented calls; judged three ways.
  Fix,         // A documented remedy; must hold.
  Operator,    // An operator of PyTorch under capture: its facts say what became of its samples.
};

// What is broken on purpose, to see that a test can fail.
enum class Break {
  Nothing,
  Trigger,  // TRIGGER(…) is left out: Reproduces must be healthy.
  Value,    // The documented value is a wrong one: Reproduces must be different.
  Remedy,   // REMEDY(…) is left out: Fix must be broken.
};

// What an outcome does to the program that meets it.
enum class Effect {
  Works,          // Nothing.
  Warns,          // Goes on, with a warning.
  Raises,         // An exception, or an error code.
  SilentlyWrong,  // Goes on with wrong numbers, or without the work that it asked for.
  Leaks,          // Goes on, and memory or another resource is lost.
  Crashes,        // The process ends.
  Hangs,          // It does not come back.
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

inline std::string_view to_string(Nature nature) { return kNatures[static_cast<size_t>(nature)]; }
inline std::string_view to_string(Fidelity fidelity) { return kFidelities[static_cast<size_t>(fidelity)]; }
inline std::string_view to_string(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }
inline std::string_view to_string(Break broken) { return kBreaks[static_cast<size_t>(broken)]; }
inline std::string_view to_string(Effect effect) { return kEffects[static_cast<size_t>(effect)]; }

inline std::optional<Effect> effect_of(std::string_view word) { return detail::enum_of<Effect>(kEffects, word); }
inline std::optional<Break> break_of(std::string_view word) { return detail::enum_of<Break>(kBreaks, word); }

inline std::optional<Kind> kind_of(std::string_view test_name) {
  if (test_name.substr(0, 7) == "Control") return Kind::Control;
  if (test_name.substr(0, 10) == "Reproduces") return Kind::Reproduces;
  if (test_name.substr(0, 3) == "Fix") return Kind::Fix;
  return std::nullopt;
}

// The case whose tests are operators, each by its own name.
inline constexpr std::string_view kOperatorsCase = "operators";

// Of a test of this case; nothing if the name begins with no kind.
inline std::optional<Kind> kind_of(std::string_view case_id, std::string_view test_name) {
  return case_id == kOperatorsCase ? Kind::Operator : kind_of(test_name);
}

// Whether a break concerns tests of this kind.
inline bool is_breakable(Kind kind, Break broken) {
  return broken == Break::Remedy ? kind == Kind::Fix : kind == Kind::Reproduces || kind == Kind::Operator;
}

// What a case needs to run: words in any order, such as "gpu python". "host" asks for nothing.
struct Needs {
  int gpus = 0;        // "gpu" is one.
  bool ranks = false;  // "ranks" is one GPU too, and all that the run has are there for the case's tests.
  bool python = false, nemo = false, transformer_engine = false;

  // Nothing if a word is not known.
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
