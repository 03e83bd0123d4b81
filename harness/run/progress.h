// What the user sees while tests run: on a terminal one line that renews itself, elsewhere a line a test.
#pragma once
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace recapture {

class Progress {
 public:
  explicit Progress(size_t total) : total_(total), terminal_(isatty(STDOUT_FILENO) != 0) {}
  void running(const std::string& test) const {
    if (!terminal_) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
    fmt::print("\r\x1b[K{} of {} done, {} left, {:%M:%S}, running {}", done_, total_, total_ - done_, seconds, test);
    std::fflush(stdout);
  }
  void finished(const std::string& line) {
    ++done_;
    fmt::print("{}{}\n", terminal_ ? "\r\x1b[K" : "", line);
    std::fflush(stdout);
  }

 private:
  size_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace recapture
