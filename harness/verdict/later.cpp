#include "harness/verdict/later.h"

#include <algorithm>

#include "harness/base/json.h"
#include "harness/base/text.h"

namespace recapture {
namespace {

// Wrong after all actions, and after none of them alone.
constexpr std::string_view kAllTogether = "all of them together";

std::vector<std::string> texts_at(const Json& json, const char* key) {
  std::vector<std::string> texts;
  if (!json.contains(key) || !json.at(key).is_array()) return texts;
  for (const Json& text : json.at(key)) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

Effect effect_of(const LaterFailure& failure) {
  if (failure.how == "hung") return Effect::Hangs;
  if (failure.how == "crashed") return Effect::Crashes;
  return failure.how == "replay" ? Effect::Raises : Effect::SilentlyWrong;
}

}  // namespace

std::optional<LaterResult> later_result(const TestRecord& test) {
  const Json json = try_parse_json(test.object("facts").text("later")).value_or(Json());
  if (!json.is_object()) return std::nullopt;
  LaterResult result{texts_at(json, "asked"), texts_at(json, "wrong")};
  const Json how = json.value("how", Json::object());
  for (const std::string& action : result.wrong) {
    const Json failure = how.is_object() ? how.value(action, Json()) : Json();
    if (failure.is_object()) result.failures.push_back({action, text_at(failure, "as"), text_at(failure, "text")});
  }
  // Before any action, "a second graph" alone is asked: the captures of the operator's other samples.
  result.is_confirmed = result.wrong.empty() || (result.asked.size() > 1 && !contains(result.wrong, kAllTogether));
  return result.asked.empty() ? std::nullopt : std::optional(std::move(result));
}

// The enumeration of effects has the harder ones last.
std::optional<Effect> effect_of_later(const LaterResult& result) {
  if (!result.is_confirmed) return std::nullopt;
  if (result.wrong.empty()) return Effect::Works;
  if (result.failures.empty()) return Effect::SilentlyWrong;
  Effect worst = Effect::Works;
  for (const LaterFailure& failure : result.failures) worst = std::max(worst, effect_of(failure));
  return worst;
}

OperatorReading read_later(const std::optional<LaterResult>& result) {
  OperatorReading reading;
  reading.was_tried = result.has_value();
  if (result) reading.effect = effect_of_later(*result);
  reading.is_break_visible = !result || !result->wrong.empty();
  return reading;
}

}  // namespace recapture
