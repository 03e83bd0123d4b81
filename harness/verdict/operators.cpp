#include "harness/verdict/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "harness/base/json.h"
#include "harness/base/text.h"

namespace recapture {
namespace {

using Counts = std::map<std::string, size_t, std::less<>>;

// Of a sample. The others did not get as far as a capture.
constexpr std::array<std::string_view, 2> kCaptured = {"right", "undefined"};
constexpr std::array<std::string_view, 5> kFailed = {"refused", "wrong", "replay", "crashed", "hung"};

size_t count_at(const Counts& counts, std::string_view how) {
  const auto found = counts.find(how);
  return found == counts.end() ? 0 : found->second;
}

OperatorVerdict verdict_of(const Counts& counts) {
  const size_t right = count_at(counts, "right"), undefined = count_at(counts, "undefined");
  if (count_at(counts, "crashed") > 0) return OperatorVerdict::Crashed;
  if (count_at(counts, "hung") > 0) return OperatorVerdict::Hung;
  if (count_at(counts, "wrong") + count_at(counts, "replay") > 0) return OperatorVerdict::Wrong;
  if (count_at(counts, "refused") > 0) {
    return right + undefined > 0 ? OperatorVerdict::SomeRefused : OperatorVerdict::Refused;
  }
  if (count_at(counts, "unavailable") > 0) return OperatorVerdict::Unavailable;
  if (right > 0) return OperatorVerdict::Captured;
  return undefined > 0 ? OperatorVerdict::Undefined : OperatorVerdict::EagerFails;
}

// cuDNN's error for a part that cannot be loaded, for example because a pack leaves it out.
constexpr std::string_view kNoCudnnPart = "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED";

// PyTorch does not define their values, so none can be wrong.
constexpr std::array<std::string_view, 6> kWithoutValues = {"empty",         "empty_like", "empty_permuted",
                                                            "empty_strided", "new_empty",  "new_empty_strided"};

// A replay that fails is still a failure.
void forget_wrong_values(Counts& counts, std::vector<OperatorFailure>& failures) {
  counts["undefined"] += count_at(counts, "wrong");
  counts.erase("wrong");
  std::erase_if(failures, [](const OperatorFailure& failure) { return failure.how == "wrong"; });
}

OperatorFailure failure_in(const Json& json) {
  OperatorFailure failure;
  failure.how = text_at(json, "as");
  failure.type = text_at(json, "type");
  failure.text = text_at(json, "text");
  failure.api = text_at(json, "api");
  failure.code = int_at(json, "code").value_or(0);
  failure.samples = static_cast<size_t>(std::max(0, int_at(json, "samples").value_or(0)));
  if (failure.how == "eager" && failure.text.find(kNoCudnnPart) != std::string::npos) failure.how = "unavailable";
  return failure;
}

bool lacks_cudnn_part(const OperatorResult& result) {
  return std::ranges::any_of(result.failures, [](const OperatorFailure& failure) {
    return failure.how == "unavailable" && failure.text.find(kNoCudnnPart) != std::string::npos;
  });
}

// How many samples of a type had an outcome.
struct Outcome {
  size_t type;
  std::string how;
  size_t samples;
};

// Of each of `types`, which become known; nothing if it is not in the fixture's format.
std::optional<std::vector<Outcome>> outcomes_in(const JsonObject& samples, std::vector<std::string>& types) {
  if (!samples.text().starts_with('{')) return std::nullopt;
  std::vector<Outcome> outcomes;
  for (const JsonObject::Member& type : samples.members()) {
    if (!type.value.starts_with('{')) return std::nullopt;
    const JsonObject by_outcome = JsonObject::known(type.value);
    for (const JsonObject::Member& one : by_outcome.members()) {
      const char* const end = one.value.data() + one.value.size();
      size_t number = 0;
      const auto [at, error] = std::from_chars(one.value.data(), end, number);
      if (at != end || error != std::errc()) return std::nullopt;
      outcomes.push_back({types.size(), one.name(), number});
    }
    types.push_back(type.name());
  }
  return outcomes;
}

// Nothing if it is not in the fixture's format.
std::optional<OperatorResult> result_in(OperatorForm form, const JsonObject& json, bool has_values) {
  OperatorResult result;
  result.form = form;
  const auto outcomes = outcomes_in(json.object("samples"), result.types);
  if (!outcomes) return std::nullopt;
  Counts counts;
  for (const auto& [type, how, samples] : *outcomes) counts[how] += samples;
  if (const Json failures = json.part("failures"); failures.is_array()) {
    for (const Json& failure : failures) {
      if (failure.is_object()) result.failures.push_back(failure_in(failure));
    }
  }
  if (!has_values) forget_wrong_values(counts, result.failures);
  if (result.failure("unavailable") != nullptr) {
    counts["unavailable"] = std::max<size_t>(count_at(counts, "unavailable"), 1);
  }
  if (lacks_cudnn_part(result)) {  // PyTorch may crash after it, with or without a capture.
    counts.erase("crashed");
    auto& failures = result.failures;
    const auto crashed = [](const OperatorFailure& failure) { return failure.how == "crashed"; };
    std::erase_if(failures, crashed);
  }
  result.verdict = verdict_of(counts);
  for (const std::string_view how : kCaptured) result.captured += count_at(counts, how);
  for (const std::string_view how : kFailed) result.tried += count_at(counts, how);
  result.tried += result.captured;
  result.by_type.resize(result.types.size());
  for (const auto& [type, how, samples] : *outcomes) {
    if (contains(kCaptured, how) || (how == "wrong" && !has_values)) {
      result.by_type[type].captured += samples;
    } else if (contains(kFailed, how) && count_at(counts, how) > 0) {  // Some do not count.
      result.by_type[type].failed += samples;
    }
  }
  if (Json decides = json.part("decides"); decides.is_object()) result.decides = std::move(decides);
  return result;
}

std::optional<Effect> effect_of_verdict(OperatorVerdict verdict) {
  switch (verdict) {
    case OperatorVerdict::Captured:
    case OperatorVerdict::Undefined:
      return Effect::Works;
    case OperatorVerdict::SomeRefused:
    case OperatorVerdict::Refused:
      return Effect::Raises;
    case OperatorVerdict::Wrong:
      return Effect::SilentlyWrong;
    case OperatorVerdict::Hung:
      return Effect::Hangs;
    case OperatorVerdict::Crashed:
      return Effect::Crashes;
    default:
      return std::nullopt;
  }
}

bool counts_for_operator(OperatorForm form) { return form != OperatorForm::Cold && form != OperatorForm::Instead; }

// A break cannot be seen in a refused capture, or without visible values.
bool sees_break(const std::vector<OperatorResult>& results) {
  bool captured = false;
  for (const OperatorResult& result : results) {
    if (!counts_for_operator(result.form)) continue;
    if (result.verdict == OperatorVerdict::Wrong) return true;
    captured = captured || result.verdict == OperatorVerdict::Captured;
  }
  return !captured;
}

bool has_crash(const std::vector<OperatorResult>& results) {
  const auto worst = worst_of(results);
  return worst == OperatorVerdict::Crashed || worst == OperatorVerdict::Hung;
}

const OperatorResult* result_of(OperatorForm form, const std::vector<OperatorResult>& results) {
  const auto found = std::ranges::find_if(results, [&](const auto& result) { return result.form == form; });
  return found == results.end() ? nullptr : &*found;
}

}  // namespace

const OperatorFailure* OperatorResult::failure(std::string_view how) const {
  const auto found = std::ranges::find_if(failures, [&](const auto& failure) { return failure.how == how; });
  return found == failures.end() ? nullptr : &*found;
}

std::vector<OperatorResult> operator_results(const TestRecord& test) {
  std::vector<OperatorResult> results;
  const JsonObject facts = test.object("facts");
  const bool has_values = !contains(kWithoutValues, test.name());
  for (size_t i = 0; i < kOperatorForms.size(); ++i) {
    std::string text = facts.text(kOperatorForms.at(i));
    if (text.empty()) continue;
    auto json = JsonObject::read(text);
    if (!json) {
      const auto parsed = try_parse_json(text);
      if (!parsed) continue;
      text = to_text(*parsed);
      json = JsonObject::known(text);
    }
    if (auto result = result_in(static_cast<OperatorForm>(i), *json, has_values)) results.push_back(std::move(*result));
  }
  return results;
}

// The worst verdict counts; the enumeration is in that order.
std::optional<OperatorVerdict> worst_of(const std::vector<OperatorResult>& results) {
  std::optional<OperatorVerdict> worst;
  bool lacks_library = false;
  for (const OperatorResult& result : results) {
    if (!counts_for_operator(result.form)) continue;
    lacks_library = lacks_library || result.verdict == OperatorVerdict::Unavailable;
    if (effect_of_verdict(result.verdict)) worst = std::max(worst.value_or(result.verdict), result.verdict);
  }
  const bool is_fine = worst == OperatorVerdict::Captured || worst == OperatorVerdict::Undefined;
  return lacks_library && is_fine ? std::nullopt : worst;
}

std::optional<Effect> effect_of_operator(const std::vector<OperatorResult>& results) {
  const auto worst = worst_of(results);
  return worst ? effect_of_verdict(*worst) : std::nullopt;
}

std::optional<LostSamples> lost_samples(const std::vector<OperatorResult>& before,
                                        const std::vector<OperatorResult>& now) {
  std::optional<LostSamples> worst;
  for (const OperatorResult& is : now) {
    const OperatorResult* was = result_of(is.form, before);
    const bool counts = counts_for_operator(is.form) && effect_of_verdict(is.verdict).has_value();
    if (was == nullptr || !counts || (worst && worst->now >= is.verdict)) continue;
    for (size_t i = 0; i < is.types.size(); ++i) {
      const auto type = std::ranges::find(was->types, is.types[i]);
      if (type == was->types.end()) continue;
      const OperatorSamples& earlier = was->by_type.at(static_cast<size_t>(type - was->types.begin()));
      if (is.by_type[i].captured >= earlier.captured || is.by_type[i].failed <= earlier.failed) continue;
      worst = LostSamples{is.form, is.types[i], was->verdict, is.verdict, earlier, is.by_type[i]};
      break;
    }
  }
  return worst;
}

std::optional<OperatorForm> form_without_result(const std::vector<OperatorResult>& before,
                                                const std::vector<OperatorResult>& now) {
  for (const OperatorResult& was : before) {
    const OperatorResult* is = result_of(was.form, now);
    const bool has_none = is == nullptr || !effect_of_verdict(is->verdict);
    if (counts_for_operator(was.form) && effect_of_verdict(was.verdict) && has_none) return was.form;
  }
  return std::nullopt;
}

std::vector<FormOutcome> forms_at_fault(const std::vector<OperatorResult>& results) {
  std::vector<FormOutcome> forms;
  for (const OperatorResult& result : results) {
    const bool is_fine = result.verdict == OperatorVerdict::Captured || result.verdict == OperatorVerdict::Undefined;
    if (!counts_for_operator(result.form) || is_fine) continue;
    const bool is_refused =
        result.verdict == OperatorVerdict::Refused || result.verdict == OperatorVerdict::SomeRefused;
    const OperatorFailure* failure = is_refused                ? result.failure("refused")
                                     : result.failures.empty() ? nullptr
                                                               : &result.failures.front();
    forms.push_back({result.form, result.verdict, failure == nullptr ? std::nullopt : std::optional(*failure)});
  }
  return forms;
}

std::string forms_of_operator(const std::vector<OperatorResult>& results) {
  std::vector<std::string> forms;
  for (const OperatorResult& result : results) {
    if (!counts_for_operator(result.form)) continue;
    forms.push_back(fmt::format("{} {} ({} of {})", to_string(result.form), to_string(result.verdict), result.captured,
                                result.tried));
  }
  return join(forms);
}

OperatorReading read_operator(const Record& record, const TestRecord& test) {
  const auto results = operator_results(test);
  OperatorReading reading{!results.empty(), forms_at_fault(results), effect_of_operator(results)};
  const auto again = record.confirmations.find(test.id());
  const auto crashed_again = [](const TestRecord& other) { return has_crash(operator_results(other)); };
  reading.is_lone_crash =
      has_crash(results) && (again == record.confirmations.end() || std::ranges::none_of(again->second, crashed_again));
  reading.is_break_visible = sees_break(results);
  return reading;
}

}  // namespace recapture
