#include "harness/run/line.h"

#include <cmath>
#include <cstdlib>

#include "harness/case/events.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

constexpr size_t kMostOfEach = 3;
constexpr size_t kWordsInRecord = 2048;  // Bytes of a test's output that its line keeps, if it did not go as it should.

std::string_view ending_word(Observation::Ending ending) {
  switch (ending) {
    case Observation::Ending::Exited:
      return "exited";
    case Observation::Ending::Signal:
      return "signal";
    case Observation::Ending::Deadline:
      return "deadline";
    case Observation::Ending::NotStarted:
      break;
  }
  return "not started";
}

// Takes what was said under one key, as events.h has it. `probing` is the probe that has not come back yet.
void take(Json& line, const std::string& name, const std::string& value, std::string& probing) {
  const KeyRule rule = rule_of(name);
  const std::string member(rule.record);
  switch (rule.keep) {
    case Keep::Last:
      line[member] = value;
      break;
    case Keep::First:
      if (!line.contains(member)) line[member] = value;
      break;
    case Keep::Number:
      line[member] = std::atoi(value.c_str());
      break;
    case Keep::FirstNumber:
      if (!line.contains(member)) line[member] = std::atoi(value.c_str());
      break;
    case Keep::FirstObject:
      if (const auto object = try_parse_json(value); object && object->is_object() && !line.contains(member)) {
        line[member] = *object;
      }
      break;
    case Keep::Each:
      if (Json& all = line[member]; all.size() < kMostOfEach) all.push_back(value);
      break;
    case Keep::ProbeBegins:
      probing = value;
      line[member] = true;
      break;
    case Keep::ProbeOutcome:
      line[member][name.substr(rule.event.size())] = value;
      probing.clear();
      break;
    case Keep::Fact:
      line[member][name] = value;
  }
}

}  // namespace

void Anonymous::hide(const std::string& folder, const std::string& as) {
  if (folder.size() > 1) folders_.emplace_back(folder, as);
}

std::string Anonymous::operator()(std::string text) const {
  for (const auto& [folder, as] : folders_) {
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at + as.size())) {
      text.replace(at, folder.size(), as);
    }
  }
  return text;
}

Json line_of(const Ran& ran, const Observation& seen, const Anonymous& anonymous) {
  Json said = Json::object();
  std::string probing;
  // Two names that are no UTF-8 must not become the same one when the line is written.
  for (const auto& [name, value] : seen.events) take(said, visible(name), anonymous(value), probing);
  if (!probing.empty()) {
    said["probes"][probing] = std::string("did not come back: ") + std::string(ending_word(seen.ending));
  }
  if (said.value(key::recorder, "") == "on") said.erase(key::recorder);  // The usual; its absence is what matters.

  // Lists and tables are read best after the single values.
  Json line{{"test", ran.test}, {"ending", ending_word(seen.ending)}, {"code", seen.code}};
  for (const auto& [member, value] : said.items()) {
    if (value.is_primitive() || member == key::culprit) line[member] = value;
  }
  for (const char* member : {"probes", "facts", "assertions"}) {
    if (said.contains(member)) line[member] = said[member];
  }
  const bool silent =
      seen.ending == Observation::Ending::Exited && line.contains(key::ended) && line[key::ended] != "failed";
  if (!silent && !seen.last_words.empty()) {
    const std::string words = anonymous(seen.last_words);
    line["last_words"] = words.size() > kWordsInRecord ? words.substr(words.size() - kWordsInRecord) : words;
    if (seen.output_bytes > kLastWords) line["output_bytes"] = seen.output_bytes;
  }
  if (line.contains(key::tries) && !ran.stopping.empty()) line["stopping"] = ran.stopping;
  line["how"] = ran.how;
  line["command"] = anonymous(ran.command);
  line["volatile"] = {{"seconds", std::round(seen.seconds * 100) / 100}};
  return line;
}

Json line_of_skipped(const std::string& test, const std::string& reason) {
  return {{"test", test}, {"ending", "not started"}, {"code", 0}, {key::skipped, reason}};
}

}  // namespace recapture
