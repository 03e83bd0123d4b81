// What the two ways of hearing have in common: a call that failed, and where it is reported to.
#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"

namespace recapture {

// How many calls of a process are reported at most.
constexpr size_t kMostCalls = 2000;

struct FailedCall {
  std::string api;
  int code = 0;
  Part part = Part::Suspect;
  bool with_python = true;
  bool accused = false;           // The one that is named where only one can be.
  std::string sentence;           // The driver's, in its log.
  std::optional<bool> capturing;  // Whether its thread captures, where that is known.
  CaptureMode mode = CaptureMode::Unknown;
  size_t unreported = 0;  // Of an end: calls since the last one that there were too many of.
};

// To be called inside the call that failed, on its thread.
void report(const FailedCall& call);

// Why nothing is heard, or "".
void report_state(const std::string& way, const std::string& why_not);

// Both start to hear, and return why they cannot, or "".
std::string hear_log();
std::string hear_cupti(bool always);

}  // namespace recapture
