#include "harness/base/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "harness/base/escape.h"

namespace recapture {
namespace {

int first_error = 0;
// A terminating signal came while the reader was stalled: printing more would block forever.
bool given_up = false;

void note(bool failed) {
  if (failed && errno == EINTR) {
    given_up = true;
  } else if (failed && first_error == 0) {
    first_error = errno;
  }
}

}  // namespace

void print_text(const std::string& text) {
  if (!given_up) note(std::fwrite(text.data(), 1, text.size(), stdout) != text.size());
}

void flush_output() {
  if (!given_up) note(std::fflush(stdout) != 0);
}

StdoutToStderr::StdoutToStderr() : kept_(dup(STDOUT_FILENO)) {
  flush_output();
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

StdoutToStderr::~StdoutToStderr() {
  flush_output();
  dup2(kept_, STDOUT_FILENO);
  close(kept_);
}

int output_error() {
  flush_output();
  return first_error == EPIPE ? 0 : first_error;
}

void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      [[maybe_unused]] const int lowest = open("/dev/null", O_RDWR);  // Gets the lowest free descriptor.
    }
  }
}

void print_error(const std::string& words) {
  std::string line = words.substr(0, words.find_last_not_of(" \n") + 1);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = escape_control(line);  // A path, for one, may hold anything.
  if (!given_up) std::fflush(stdout);
  std::fputs(("recapture: " + line + "\n").c_str(), stderr);
}

}  // namespace recapture
