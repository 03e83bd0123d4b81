// The results of an operator's test: for each form how many samples were captured, and why the others were not. From
// the facts that fixtures/python/operators.h records.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/record.h"

namespace recapture {

enum class OperatorForm {
  Forward,
  Backward,  // Forward and backward in one capture.
  InPlace,   // The variant that ends in "_".
  Out,       // Into out=.
  Cold,      // The process's first call, on one sample.
  Instead,   // The replacement from cases/operators/instead.toml, on the operator's samples.
};
inline constexpr std::array<std::string_view, 6> kOperatorForms = {"forward", "backward", "inplace",
                                                                   "out",     "cold",     "instead"};
inline std::string_view to_string(OperatorForm form) { return kOperatorForms.at(static_cast<size_t>(form)); }

// Of a form. Samples that fail in eager mode do not count.
enum class OperatorVerdict {
  Captured,     // Every sample, and replays gave eager's values.
  Undefined,    // Captured; eager's own values vary, so there is nothing to compare.
  SomeRefused,  // It depends on the sample.
  Refused,      // Every sample.
  Wrong,        // A sample was captured, and a replay failed or gave other values.
  Hung,         // A sample did not return.
  Crashed,      // A sample ended its process.
  EagerFails,   // Every sample fails without a capture.
  Unavailable,  // Samples need a library that the pack lacks; no other was refused, wrong, hung or crashed.
                // Crashes do not count if a part of cuDNN could not be loaded.
};
inline constexpr std::array<std::string_view, 9> kOperatorVerdicts = {
    "captured",    "nothing to compare", "depends on the sample", "refused", "wrong", "hangs", "crashes",
    "eager fails", "unavailable"};
inline std::string_view to_string(OperatorVerdict verdict) {
  return kOperatorVerdicts.at(static_cast<size_t>(verdict));
}

// A failure of a form's samples.
struct OperatorFailure {
  std::string how;        // "refused", "wrong", "replay" (it failed), "eager", "crashed", "hung", "unavailable".
  std::string type = {};  // Of the Python exception.
  std::string text = {};  // The first line of its message.
  std::string api = {};   // The driver call that broke the capture, if the recorder saw one.
  int code = 0;           // CUDA's error number; 0 if PyTorch refused.
  size_t samples = 0;
};

struct OperatorSamples {
  size_t captured = 0, failed = 0;
};

struct OperatorResult {
  OperatorForm form = OperatorForm::Forward;
  OperatorVerdict verdict = OperatorVerdict::EagerFails;
  size_t captured = 0, tried = 0;         // Samples, of all types.
  std::vector<std::string> types;         // float32, float16.
  std::vector<OperatorSamples> by_type;   // One for each of `types`.
  std::vector<OperatorFailure> failures;  // The most frequent first.
  Json decides = Json::object();          // By argument: its kinds with and without success.

  const OperatorFailure* failure(std::string_view how) const;
};

// In the order of the enumeration; only tested forms.
std::vector<OperatorResult> operator_results(const TestRecord& test);

// The worst verdict of its forms, except for the first call and the replacement; nothing if none was tried, or if a
// form is unavailable and all others are fine.
std::optional<OperatorVerdict> worst_of(const std::vector<OperatorResult>& results);

// The effect of the worst form on a program that captures it; nothing if no form was tried. Neither the first call nor
// the replacement counts.
std::optional<Effect> effect_of_operator(const std::vector<OperatorResult>& results);

// A form that counts and is not fine, with the failure that shows it.
struct FormOutcome {
  OperatorForm form = OperatorForm::Forward;
  OperatorVerdict verdict = OperatorVerdict::Refused;
  std::optional<OperatorFailure> failure = {};
};
std::vector<FormOutcome> forms_at_fault(const std::vector<OperatorResult>& results);

// What the judge needs of an operator's test.
struct OperatorReading {
  bool was_tried = false;  // A form was.
  std::vector<FormOutcome> at_fault = {};
  std::optional<Effect> effect = {};
  // A sample ended its process or did not come back, and no repetition of the test shows that again: one such end may
  // be an accident, or the pack's fault.
  bool is_lone_crash = false;
  bool is_break_visible = false;  // If the run left out the capture or expected a wrong value.
};
OperatorReading read_operator(const Record& record, const TestRecord& test);

// Samples of a form and a type that were captured, and fail now. Releases differ in their samples, so fewer that are
// captured are a loss only if more fail.
struct LostSamples {
  OperatorForm form = OperatorForm::Forward;
  std::string type;
  OperatorVerdict before = OperatorVerdict::Captured, now = OperatorVerdict::Refused;  // Of the form.
  OperatorSamples samples_before, samples_now;
};
// Of the form that is worst now; nothing if none lost any.
std::optional<LostSamples> lost_samples(const std::vector<OperatorResult>& before,
                                        const std::vector<OperatorResult>& now);

// A form that counts, had a result before and has none now; nothing if there is none.
std::optional<OperatorForm> form_without_result(const std::vector<OperatorResult>& before,
                                                const std::vector<OperatorResult>& now);

// The verdicts of the forms that count, each with its samples: "forward refused (0 of 8), out captured (8 of 8)".
std::string forms_of_operator(const std::vector<OperatorResult>& results);

}  // namespace recapture
