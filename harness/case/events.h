// What a test process reports to the runner: lines of `key=value` on one file descriptor. Each line is one write, so
// earlier lines survive a crash or a hang. The recorder of CUDA calls, a separate library, writes them too.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace recapture {

// Where the recorder cannot write the report of `blame`, errno in digits, as the target of a link with this ending.
inline constexpr std::string_view kErrorLink = ".error";
inline constexpr const char* kEventsVariable = "RECAPTURE_EVENTS";  // Holds the descriptor's number.
inline constexpr size_t kLongestValue = 4096;                       // A pipe takes a line up to this size atomically.

// Every key with a meaning. Any other key is a fact of the test; keys with the prefix "table." are rows that `show`
// prints.
namespace key {
inline constexpr char seen[] = "seen";                  // What a Reproduces test observed; its value for
inline constexpr char documented[] = "documented";      // documented
inline constexpr char healthy[] = "healthy";            // and its value for healthy.
inline constexpr char hits[] = "hits";                  // Of a race: how often it occurred,
inline constexpr char tries[] = "tries";                // in how many attempts.
inline constexpr char raised_by[] = "raised_by";        // The CUDA call that must have raised the failure.
inline constexpr char exception[] = "exception";        // The C++ type of the first failure,
inline constexpr char message[] = "message";            // its message
inline constexpr char code[] = "code";                  // and CUDA's error number.
inline constexpr char skipped[] = "skipped";            // Why the test did not run.
inline constexpr char inapplicable[] = "inapplicable";  // What this LibTorch release lacks.
inline constexpr char assertion[] = "assertion";        // An assertion of GoogleTest's that failed.
inline constexpr char remedy[] = "remedy";              // A remedy was left out on purpose.
inline constexpr char ended[] = "ended";                // The test came to its end: passed, failed or skipped.
inline constexpr char probing[] = "probing";            // A probe of what the failure left behind begins.
inline constexpr char probe[] = "probe.";               // Prefix: what the probe of that name found.
inline constexpr char table[] = "table.";               // Prefix: a row of a table.
inline constexpr char recorder[] = "recorder";          // The recorder's state: "on", or why it is off.
inline constexpr char culprit[] = "culprit";            // The call that broke a capture, as JSON,
inline constexpr char culprit_log[] = "culprit_log";    // and the driver's text about it: "cuEventQuery: its text".
}  // namespace key

// How a test's line stores the values of a key.
enum class Keep {
  Last,          // The last value, as text.
  First,         // The first value, as text.
  Number,        // The last value, as a whole number.
  FirstNumber,   // The first one.
  FirstObject,   // The first one that is a JSON object.
  LogOfObject,   // The last one, in that object, if it is about the object's call.
  Each,          // All of them, up to a limit, as a list.
  ProbeBegins,   // The name of a probe, which may hang or crash.
  ProbeOutcome,  // The result of the probe that the rest of the key names.
  Fact,          // The last value, below "facts".
};

struct KeyRule {
  std::string_view event;  // The key; ends in a dot where it is a prefix.
  Keep keep;
  std::string_view record;  // The member of the test's line.
};

inline constexpr KeyRule kKeyRules[] = {
    {key::seen, Keep::Last, key::seen},
    {key::documented, Keep::Last, key::documented},
    {key::healthy, Keep::Last, key::healthy},
    {key::hits, Keep::Number, key::hits},
    {key::tries, Keep::Number, key::tries},
    {key::raised_by, Keep::Last, key::raised_by},
    {key::exception, Keep::First, key::exception},
    {key::message, Keep::First, key::message},
    {key::code, Keep::FirstNumber, "error"},
    {key::skipped, Keep::Last, key::skipped},
    {key::inapplicable, Keep::Last, key::inapplicable},
    {key::assertion, Keep::Each, "assertions"},
    {key::remedy, Keep::Last, key::remedy},
    {key::ended, Keep::Last, key::ended},
    {key::probing, Keep::ProbeBegins, key::probing},
    {key::probe, Keep::ProbeOutcome, "probes"},
    {key::recorder, Keep::Last, key::recorder},
    {key::culprit, Keep::FirstObject, key::culprit},
    {key::culprit_log, Keep::LogOfObject, key::culprit},
};

inline KeyRule rule_of(std::string_view event) {
  for (const KeyRule& rule : kKeyRules) {
    const bool prefix = rule.event.back() == '.';
    if (prefix ? event.substr(0, rule.event.size()) == rule.event : event == rule.event) return rule;
  }
  return {event, Keep::Fact, "facts"};
}

inline std::string event_line(std::string_view key, std::string_view value) {
  std::string line(key);
  line += '=';
  for (char c : value) {
    if (line.size() > kLongestValue - 8) {
      line += "[cut]";
      break;
    }
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  line += '\n';
  return line;
}

// Parses one line without its end. A line without `=` is not an event: its key is empty.
inline std::pair<std::string, std::string> parse_event(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {};
  std::string value;
  for (size_t i = equals + 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      value += line[i] == 'n' ? '\n' : line[i];
    } else {
      value += line[i];
    }
  }
  return {std::string(line.substr(0, equals)), value};
}

}  // namespace recapture
