#include "harness/compare/change.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

#include "harness/base/escape.h"

namespace recapture::compare {
namespace {

constexpr std::array<std::string_view, kChangeKindCount> kChangeKinds = {
    "effect",  "error",   "origin",  "observation", "damage", "aftermath", "sign",
    "holding", "capture", "samples", "rate",        "tries",  "result"};
constexpr std::array<std::string_view, kStateCount> kStates = {"works", "warns", "raises",  "silently wrong",
                                                               "leaks", "hangs", "crashes", "absent"};
constexpr std::array<std::string_view, 4> kManners = {"shows", "raises", "warns", "ends early"};

static_assert(!kChangeKinds.back().empty(), "each has a word");
static_assert(!kStates.back().empty(), "each has a word");
static_assert(!kProbes.back().empty(), "each has a word");

constexpr const auto& words_for(ChangeKind) { return kChangeKinds; }
constexpr const auto& words_for(State) { return kStates; }
constexpr const auto& words_for(Manner) { return kManners; }
constexpr const auto& words_for(Probe) { return kProbes; }
constexpr const auto& words_for(Kind) { return kKinds; }
constexpr const auto& words_for(OperatorForm) { return kOperatorForms; }

// The members of each type with their keys: one list for writing and for reading.
template <class Visit>
void each_member(const Visit& visit, auto&& failure) requires std::is_same_v<std::decay_t<decltype(failure)>, Failure> {
  visit("code", failure.code);
  visit("check", failure.is_check);
  visit("text", failure.text);
}
template <class Visit>
void each_member(const Visit& visit,
                 auto&& result) requires std::is_same_v<std::decay_t<decltype(result)>, ProbeResult> {
  visit("probe", result.probe);
  visit("result", result.result);
}
template <class Visit>
void each_member(const Visit& visit, auto&& outcome) requires std::is_same_v<std::decay_t<decltype(outcome)>, Outcome> {
  visit("state", outcome.state);
  visit("harmless", outcome.is_harmless);
  visit("manner", outcome.manner);
  visit("failure", outcome.failure);
  visit("at_end", outcome.at_end);
  visit("invalidates", outcome.invalidates);
  visit("status", outcome.status);
  visit("end", outcome.end);
  visit("type", outcome.type);
  visit("call", outcome.call);
  visit("text", outcome.text);
  visit("probes", outcome.probes);
  visit("count", outcome.count);
  visit("all", outcome.all);
}
template <class Visit>
void each_member(const Visit& visit, auto&& facts) requires std::is_same_v<std::decay_t<decltype(facts)>, Facts> {
  visit("kind", facts.kind);
  visit("fix", facts.fix);
  visit("form", facts.form);
  visit("type", facts.type);
}
template <class Visit>
void each_member(const Visit& visit, auto&& notes) requires std::is_same_v<std::decay_t<decltype(notes)>, Notes> {
  visit("afterwards", notes.afterwards);
  visit("other_forms", notes.has_other_forms);
  visit("machine", notes.machine);
}
template <class Visit>
void each_member(const Visit& visit, auto&& change) requires std::is_same_v<std::decay_t<decltype(change)>, Change> {
  visit("kind", change.kind);
  visit("from", change.from);
  visit("to", change.to);
  visit("facts", change.facts);
  visit("notes", change.notes);
}

template <class Value>
Json json_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return words_for(value).at(static_cast<size_t>(value));
  } else if constexpr (std::is_same_v<Value, std::vector<ProbeResult>>) {
    Json all = Json::array();
    for (const ProbeResult& result : value) all.push_back(json_of(result));
    return all;
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
    return value;
  } else {
    Json object = Json::object();
    each_member(
        [&]<class Member>(const char* key, const Member& member) {
          if (std::is_enum_v<Member> || member != Member()) object[key] = json_of(member);
        },
        value);
    return object;
  }
}

template <class Value>
void read(const Json& json, Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto& words = words_for(value);
    const auto& word = json.get_ref<const std::string&>();
    const auto at = std::ranges::find(words, word);
    if (at == words.end()) throw std::runtime_error(fmt::format("unknown word '{}'", escape_control(word)));
    value = static_cast<Value>(at - words.begin());
  } else if constexpr (std::is_same_v<Value, std::vector<ProbeResult>>) {
    for (const Json& each : json.get_ref<const Json::array_t&>()) read(each, value.emplace_back());
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = escape_control(json.get_ref<const std::string&>());
  } else if constexpr (std::is_arithmetic_v<Value>) {
    value = json.get<Value>();
  } else {
    size_t count = 0;
    each_member(
        [&]<class Member>(const char* key, Member& member) {
          if (const auto at = json.find(key); at != json.end()) {
            read(*at, member);
            ++count;
          }
        },
        value);
    if (!json.is_object() || count != json.size()) throw std::runtime_error("a change with another member");
  }
}

}  // namespace

Json to_json(const Change& change) { return json_of(change); }

Change change_from(const Json& json) {
  Change change;
  read(json, change);
  return change;
}

}  // namespace recapture::compare
