// Standard output. A closed pipe (`| head`), a full disk or a closed descriptor must not end a run or change its
// result: nothing here throws, and the error is checked once, at the end.
#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

namespace recapture {

void print_text(const std::string& text);

template <class... T>
void print(fmt::format_string<T...> format, T&&... values) {
  print_text(fmt::format(format, std::forward<T>(values)...));
}

void flush_output();

// Redirects standard output to standard error during its lifetime.
class StdoutToStderr {
 public:
  StdoutToStderr();
  ~StdoutToStderr();
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  int kept_;
};

// The first error; 0 if there was none, if the reader closed the pipe, or if a signal ended the wait.
int output_error();

// Makes sure that descriptors 0, 1 and 2 are open, so that no file opened later gets one of them.
void open_standard_streams();

// One line on standard error.
void print_error(const std::string& words);

}  // namespace recapture
