#include "harness/run/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "harness/base/output.h"

namespace recapture::run {
namespace {

std::string clock_words(double seconds) {
  const auto whole = static_cast<long>(seconds);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// A line that wraps cannot be overwritten.
size_t columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 119U;
}

}  // namespace

Progress::Progress(size_t total, size_t width, Estimate estimate)
    : total_(total), width_(width), terminal_(isatty(STDOUT_FILENO) != 0), estimate_(std::move(estimate)) {}

void Progress::running(size_t worker, const std::string& test) {
  running_[worker] = latest_ = test;
  renew();
}

void Progress::finished(size_t worker, const std::string& test) {
  ++done_;
  running_.erase(worker);
  estimate_.finished(test);
}

void Progress::show(const std::string& line) {
  print("{}{}\n", terminal_ ? "\r\x1b[K" : "", line);
  flush_output();
  shown_.clear();
}

void Progress::tick() { renew(); }

std::string Progress::run_by(size_t worker) const {
  const auto found = running_.find(worker);
  return found == running_.end() ? "" : found->second;
}

void Progress::renew() {
  if (!terminal_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto left = estimate_.left(width_, elapsed);
  std::string text =
      fmt::format("{} of {} done, {}, {}", done_, total_, clock_words(elapsed),
                  left && done_ < total_ ? "about " + clock_words(*left) + " left, running " : "running ");
  text += running_.size() > 1 ? fmt::format("{}: {}", running_.size(), latest_) : latest_;
  if (text.size() > columns()) text.resize(columns());
  if (text == shown_) return;
  shown_ = text;
  print("\r\x1b[K{}", text);
  flush_output();
}

}  // namespace recapture::run
