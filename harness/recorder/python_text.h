// Parses faulthandler's output.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace recapture::python {

struct Frame {
  std::string file;
  int line = 0;
  std::string function;
};

inline std::string text(const Frame& frame) {
  return frame.file + ":" + std::to_string(frame.line) + " " + frame.function;
}

struct Thread {
  uintptr_t handle = 0;       // Its pthread_self().
  std::vector<Frame> frames;  // Innermost first; empty if it runs no Python.
};

// "Thread 0x00007f1d (most recent call first):", or "Stack (…" for the single thread `asked`; then a line
// `  File "train.py", line 12 in step` for each frame. Unknown lines, such as Python 3.14's C frames, are skipped.
inline std::vector<Thread> read_threads(std::string_view text, uintptr_t asked) {
  std::vector<Thread> threads;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line(text.substr(at, end - at));
    at = end + 1;
    const size_t number = line.find("hread 0x");
    if (line.rfind("Stack (", 0) == 0) threads.push_back({asked, {}});
    if (!line.empty() && line.front() != ' ' && number != line.npos) {
      threads.push_back({std::strtoull(line.c_str() + number + std::string_view("hread ").size(), nullptr, 16), {}});
    }
    constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
    const size_t after = line.rfind(kLine), in = line.find(kIn, after == line.npos ? 0 : after);
    if (threads.empty() || line.rfind(kFile, 0) != 0 || after == line.npos || in == line.npos) continue;
    threads.back().frames.push_back({line.substr(kFile.size(), after - kFile.size()),
                                     std::atoi(line.c_str() + after + kLine.size()), line.substr(in + kIn.size())});
  }
  return threads;
}

}  // namespace recapture::python
