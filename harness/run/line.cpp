#include "harness/run/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "harness/base/escape.h"
#include "harness/blame/source.h"
#include "harness/case/events.h"
#include "harness/model/record.h"
#include "harness/recorder/culprit.h"

namespace recapture::run {
namespace {

constexpr size_t kMostOfEach = 3;
constexpr size_t kMostFacts = 1000;      // Of a test; the same limit for its probes.
constexpr size_t kWordsInRecord = 2048;  // Bytes of output that the line of a failed test keeps.

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

std::optional<int> whole_number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Parses the recorder's value; anything else under its key is no culprit, nor is a value nested too deep for the test's
// line.
std::optional<Json> culprit_in(const std::string& text) {
  const Json line = try_parse_json("[" + text + "]").value_or(Json());
  const Json object = line.size() == 1 ? line.front() : Json();
  const auto is_text = [](const Json& json) { return json.is_string(); };
  if (!object.is_object()) return std::nullopt;
  for (const char* member : {"api", "thread", "mode", "log"}) {
    if (object.contains(member) && !object.at(member).is_string()) return std::nullopt;
  }
  if (object.contains("frames") && !(object.at("frames").is_array() &&
                                     std::all_of(object.at("frames").begin(), object.at("frames").end(), is_text))) {
    return std::nullopt;
  }
  return object;
}

// A test's output without GoogleTest's.
std::string without_frame(const std::string& words) {
  constexpr std::string_view kFrame[] = {"[====",
                                         "[----",
                                         "[ RUN ",
                                         "[       OK ]",
                                         "[  FAILED  ]",
                                         "[  PASS",
                                         "Note: Google Test",
                                         " 1 FAILED TEST",
                                         "Running main() from "};
  std::string kept;
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    const bool is_frame =
        std::ranges::any_of(kFrame, [&](std::string_view start) { return line.compare(0, start.size(), start) == 0; });
    const bool is_gap = line.empty() && (kept.empty() || (kept.size() > 1 && kept[kept.size() - 2] == '\n'));
    if (!is_frame && !is_gap) kept += line + "\n";
  }
  if (kept.size() > 1 && kept[kept.size() - 2] == '\n') kept.pop_back();
  return kept;
}

// Replaces the recorder's addresses by the line in the case; does nothing if the case has no line table or addr2line is
// not installed.
void say_where(Json& culprit, const std::string& program) {
  std::vector<Frame> frames;
  for (const Json& offset : culprit.value("at", Json::array())) {
    if (offset.is_number_unsigned()) frames.push_back({"", program, offset.get<uintptr_t>()});
  }
  culprit.erase("at");
  if (frames.empty()) return;
  for (const blame::SourceFrame& frame : blame::native_frames(frames)) {
    constexpr std::string_view kCases = "/cases/";  // The case's debug information is relative to the tree's root.
    if (frame.file.compare(0, kCases.size(), kCases) != 0) continue;
    culprit["file"] = frame.file.substr(1);
    culprit["line"] = frame.line;
    return;
  }
}

// Collects a test's events as defined in events.h, and the first contradiction among them.
class Said {
 public:
  void take(const std::string& name, const std::string& value);
  // `ending`: how the process ended, which explains an unfinished probe.
  Json end(std::string_view ending);
  void contradict(const std::string& words) {
    if (!line_.contains("contradiction")) line_["contradiction"] = words;
  }

 private:
  void take_number(const std::string& member, const std::string& value);
  void take_one_of_many(const std::string& member, const std::string& name, const std::string& value);

  Json line_ = Json::object();
  std::string probing_;  // The probe that has not finished yet.
  std::string log_;      // "cuEventQuery: its text": the driver's log about the culprit.
};

void Said::take_number(const std::string& member, const std::string& value) {
  if (const auto number = whole_number(value)) {
    line_[member] = *number;
  } else {
    contradict(fmt::format("its {} is '{}', which is not a number", member, value.substr(0, 80)));
  }
}

void Said::take_one_of_many(const std::string& member, const std::string& name, const std::string& value) {
  Json& all = line_[member];
  if (all.size() < kMostFacts || all.contains(name)) {
    all[name] = value;
  } else {
    contradict(fmt::format("it has more than {} {}", kMostFacts, member));
  }
}

void Said::take(const std::string& name, const std::string& value) {
  const KeyRule rule = rule_of(name);
  const std::string member(rule.record);
  const bool is_evidence = rule.keep != Keep::Fact && rule.record != key::culprit && name != key::recorder;
  if (line_.contains(key::ended)) {
    // Later calls of other threads are no evidence. A test's own reports must come before its end.
    if (is_evidence) contradict(fmt::format("it said {}={} after its end", name, value.substr(0, 80)));
    return;
  }
  if (name == key::seen && line_.contains(key::seen)) contradict("it said twice what it had seen");
  switch (rule.keep) {
    case Keep::Last:
      line_[member] = value;
      break;
    case Keep::First:
      if (!line_.contains(member)) line_[member] = value;
      break;
    case Keep::Number:
      take_number(member, value);
      break;
    case Keep::FirstNumber:
      if (!line_.contains(member)) take_number(member, value);
      break;
    case Keep::FirstObject:
      if (const auto object = culprit_in(value); !object) {
        take_one_of_many("facts", name, value);
      } else if (!line_.contains(member) && !(line_.contains(key::probing) && object->value("thread", "") != "other")) {
        // A probe examines what the failure left, on the test's own thread, and its calls broke nothing. Calls of
        // another thread may be reported late.
        line_[member] = *object;
      }
      break;
    case Keep::LogOfObject:
      log_ = value;
      break;
    case Keep::Each:
      if (Json& all = line_[member]; all.size() < kMostOfEach) all.push_back(value);
      break;
    case Keep::ProbeBegins:
      probing_ = value;
      line_[member] = true;
      break;
    case Keep::ProbeOutcome:
      take_one_of_many(member, name.substr(rule.event.size()), value);
      probing_.clear();
      break;
    case Keep::Fact:
      take_one_of_many(member, name, value);
  }
}

Json Said::end(std::string_view ending) {
  if (!probing_.empty()) take_one_of_many("probes", probing_, fmt::format("did not come back: {}", ending));
  if (line_.contains(key::hits) != line_.contains(key::tries)) {
    contradict("it said one of hits and tries");
    line_.erase(key::hits);
    line_.erase(key::tries);
  }
  const size_t end_of_api = log_.find(": ");
  if (end_of_api != log_.npos && line_.contains(key::culprit) &&
      text_at(line_[key::culprit], "api") == log_.substr(0, end_of_api)) {
    line_[key::culprit]["log"] = log_.substr(end_of_api + 2);
  }
  return line_;
}

// The line of a stub that the test or a child process called.
std::string line_of_stub(const std::string& output) {
  const size_t at = output.find(kLeftOut);
  return at == std::string::npos ? "" : output.substr(at, output.find('\n', at) - at);
}

bool is_of_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

}  // namespace

void Anonymous::hide(const std::string& folder, const std::string& as) {
  if (folder.size() < 2 || folder.front() != '/') return;  // "/", or an invalid HOME.
  const auto longer = [&](const auto& other) { return other.first.size() < folder.size(); };
  folders_.insert(std::ranges::find_if(folders_, longer), {folder, as});
}

std::string Anonymous::operator()(std::string text) const {
  for (const auto& [folder, as] : folders_) {
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
      const size_t end = at + folder.size();
      const bool is_it = folder.back() == '/' || end == text.size() || !is_of_a_name(text[end]);
      if (is_it) text.replace(at, folder.size(), as);
      at += is_it ? as.size() : 1;
    }
  }
  // event_line() cuts a long value, possibly within a folder's name.
  if (const size_t cut = text.find("[cut]"); cut != std::string::npos) {
    for (const auto& [folder, as] : folders_) {
      for (size_t size = std::min(folder.size() - 1, cut); size > 1; --size) {
        if (text.compare(cut - size, size, folder, 0, size) != 0) continue;
        return text.erase(cut - size, size);
      }
    }
  }
  return text;
}

Json line_of(const Ran& ran, const Observation& seen, const Anonymous& of_machine) {
  Anonymous anonymous = of_machine;
  anonymous.hide(seen.scratch, "(scratch)");
  Said events;
  // The lost events may include a failed assertion, or the call that raised the failure.
  if (seen.events_lost) events.contradict(fmt::format("it said more than {} MiB of events", kMostEvents >> 20));
  // Two names that are not UTF-8 must not become equal in the line.
  for (const auto& [name, value] : seen.events) events.take(escape_control(name), anonymous(value));
  if (seen.stuck != 0) events.contradict("a process of its could not be killed");
  Json said = events.end(ending_word(seen.ending));
  if (said.value(key::recorder, "") == "on") said.erase(key::recorder);  // The default; only its absence matters.

  // Lists and tables are easiest to read after the single values.
  Json line{{"test", ran.test}, {"ending", ending_word(seen.ending)}, {"code", seen.code}};
  for (const auto& [member, value] : said.items()) {
    if (value.is_primitive() || member == key::culprit) line[member] = value;
  }
  if (line.contains(key::culprit)) say_where(line[key::culprit], ran.program);
  for (const char* member : {"probes", "facts", "assertions"}) {
    if (said.contains(member)) line[member] = said[member];
  }
  if (const std::string stub = line_of_stub(seen.last_words); !stub.empty()) line["stub"] = stub;
  if (const std::string lacking = missing_symbol(seen.last_words); !lacking.empty()) line["lacks"] = lacking;
  const bool silent =
      seen.ending == Observation::Ending::Exited && line.contains(key::ended) && line[key::ended] != "failed";
  if (!silent && !seen.last_words.empty()) {
    const std::string words = anonymous(without_frame(seen.last_words));
    line["last_words"] = words.size() > kWordsInRecord ? words.substr(words.size() - kWordsInRecord) : words;
    if (seen.output_bytes > kOutputTail) line["output_bytes"] = seen.output_bytes;
  }
  if (line.contains(key::tries) && !ran.stopping.empty()) line["stopping"] = ran.stopping;
  line["how"] = ran.how;
  if (!ran.code.empty()) line["program"] = ran.code;
  if (ran.connections) line["connections"] = *ran.connections;
  line["volatile"] = {{"seconds", std::round(seen.seconds * 100) / 100}};
  return line;
}

Json line_of_skipped(const std::string& test, const std::string& code, const std::string& reason) {
  Json line = {{"test", test}, {"ending", "not started"}, {"code", 0}, {key::skipped, reason}};
  if (!code.empty()) line["program"] = code;
  return line;
}

}  // namespace recapture::run
