// Standard output. A reader that has seen enough (`| head`), a full disk or a closed descriptor must not end a run or
// change what it found: nothing here throws, and how it went is asked once, at the end.
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

// While it lives, what is printed goes to standard error.
class StdoutToStderr {
 public:
  StdoutToStderr();
  ~StdoutToStderr();
  StdoutToStderr(const StdoutToStderr&) = delete;
  StdoutToStderr& operator=(const StdoutToStderr&) = delete;

 private:
  int kept_;
};

// The first error of all of that; 0 if there was none, or if only the reader has gone or a signal has ended the wait.
int output_error();

// Makes sure that descriptors 0, 1 and 2 are open: a file that is opened later must never be taken for one of them.
void open_standard_streams();

// One line on standard error.
void print_error(const std::string& words);

}  // namespace recapture
