// The driver's log, since R575: its binary interface and its lines.
#pragma once
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include "harness/recorder/calls.h"

namespace recapture::driver_log {

constexpr int kError = 0;  // CU_LOG_LEVEL_ERROR; a warning is 1.

using Callback = void (*)(void* own, int level, char* message, size_t length);
using Register = int (*)(Callback callback, void* own, void** handle);  // cuLogsRegisterCallback

// "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2", or a sentence, which precedes the line of
// its call on the same thread. CUDA_LOG_FILE's lines begin with "[time][thread][CUDA][E] ".
struct Line {
  std::string_view sentence;
  std::string_view api;  // "" for a sentence.
  int code = 0;
};

inline Line read_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == '[' && text.find(']') != text.npos) text.remove_prefix(text.find(']') + 1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  constexpr std::string_view kReturning = "Returning ", kFrom = ") from ";
  const size_t from = text.find(kFrom);
  if (text.substr(0, kReturning.size()) != kReturning || from == text.npos) return {text, {}, 0};
  Line line;
  const std::string_view number = text.substr(kReturning.size());
  std::from_chars(number.data(), number.data() + number.size(), line.code);
  line.api = text.substr(from + kFrom.size());
  return line;
}

// Finds the call that broke a capture from the log alone: the first call able to do so since the last broken end.
class Accuser {
 public:
  // Whether to name this call. A refused call is named too, and the culprit may still follow; a call that may be
  // unrelated to captures is not named, and the culprit may still follow.
  bool names(Part part) {
    if (part == Part::Possible) return false;
    bool& named = part == Part::Refused ? refused_ : accused_;
    const bool is_news = !std::exchange(named, true);
    if (part == Part::Ended || part == Part::EndedBy) accused_ = refused_ = false;
    return is_news;
  }

 private:
  bool accused_ = false, refused_ = false;
};

}  // namespace recapture::driver_log
