// The call that broke a capture, in the words of the runner and in those of people.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/case/events.h"
#include "harness/recorder/captures.h"

namespace recapture {

struct Culprit {
  std::string api;
  int code = 0;
  bool capturing = false;
  CaptureMode mode = CaptureMode::None;
  std::vector<std::string> frames;
};

// In ASCII: what is no UTF-8, such as a name cut in the middle of a character, is replaced and does not spoil the line.
inline std::string json(const Culprit& culprit) {
  using Json = nlohmann::ordered_json;
  const Json object{{"api", culprit.api},
                    {"code", culprit.code},
                    {"thread", culprit.capturing ? "capturing" : "other"},
                    {"mode", name(culprit.mode)},
                    {"frames", culprit.frames}};
  return object.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// An event is cut beyond its longest length, which would cut the JSON; the outermost frames go first.
inline std::string culprit_event(Culprit culprit) {
  for (;; culprit.frames.pop_back()) {
    std::string line = event_line(key::culprit, json(culprit));
    if (line.size() <= kLongestValue - 8 || culprit.frames.empty()) return line;
  }
}

inline std::string sentence(const Culprit& culprit) {
  std::string out = culprit.api + " returned " + std::to_string(culprit.code) +
                    (culprit.capturing ? " on a capturing thread" : " on a thread that captures nothing");
  out += culprit.mode == CaptureMode::None ? ", no capture open" : std::string(", capture mode ") + name(culprit.mode);
  for (size_t i = 0; i < culprit.frames.size(); ++i) out += (i ? " < " : "; called from ") + culprit.frames[i];
  return out;
}

}  // namespace recapture
