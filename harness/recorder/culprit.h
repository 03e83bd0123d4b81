// The call that broke a capture, as an event for the runner and as text for people.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/events.h"
#include "harness/recorder/captures.h"

namespace recapture {

struct Culprit {
  std::string api;
  int code = 0;
  std::optional<bool> capturing;  // Whether its thread captures; unknown from some logs.
  CaptureMode mode = CaptureMode::None;
  std::vector<std::string> frames;
  std::vector<std::string> python = {};  // Of its thread, innermost first; empty without Python.
  std::optional<std::string> log =
      {};                          // The driver's message in its log; "" for none; nothing if the log lacks the call.
  std::vector<uintptr_t> at = {};  // Frames in the program itself, as offsets; the runner resolves them.
};

// In ASCII: bytes that are not UTF-8, such as a name cut within a character, are replaced.
inline std::string json(const Culprit& culprit) {
  using Json = nlohmann::ordered_json;
  Json object{{"api", culprit.api},
              {"code", culprit.code},
              {"thread", !culprit.capturing   ? "unknown"
                         : *culprit.capturing ? "capturing"
                                              : "other"},
              {"mode", name(culprit.mode)},
              {"frames", culprit.frames}};
  if (!culprit.python.empty()) object["python"] = culprit.python;
  if (culprit.log) object["log"] = *culprit.log;
  if (!culprit.at.empty()) object["at"] = culprit.at;
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Limits the event's length, because a cut event would be invalid JSON; outermost frames are dropped first, Python's
// last.
inline std::string culprit_event(Culprit culprit) {
  for (;;) {
    std::string line = event_line(key::culprit, json(culprit));
    std::vector<std::string>& least = culprit.frames.empty() ? culprit.python : culprit.frames;
    if (line.size() <= kLongestValue - 8 || least.empty()) return line;
    least.pop_back();
  }
}

inline std::string sentence(const Culprit& culprit) {
  std::string out = culprit.api + " returned " + std::to_string(culprit.code);
  if (culprit.capturing) out += *culprit.capturing ? " on a capturing thread" : " on a thread that captures nothing";
  if (culprit.mode == CaptureMode::None) out += ", no capture open";
  if (culprit.mode < CaptureMode::None) out += std::string(", capture mode ") + name(culprit.mode);
  const char* before = "; called from ";
  for (const std::vector<std::string>* frames : {&culprit.python, &culprit.frames}) {
    for (const std::string& frame : *frames) out += std::exchange(before, " < ") + frame;
  }
  return out;
}

}  // namespace recapture
