// What a pasted text shows: an error message, a traceback, a log of thousands of lines, lines of the driver's log.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace recapture::explain {

// A CUDA error that a text names, by its number, its name or its text.
struct NamedError {
  int code;
  size_t line;  // From 1.
};

struct ErrorText {
  std::vector<std::string> lines;  // As they are, cut at kLongestLine.
  std::string lower;               // All of it in lower case, for cues, and where each line begins there.
  std::vector<size_t> starts;
  std::string
      near;  // `lower`, with spaces for what stands far from the errors, lists what is installed or did not run.
  std::vector<NamedError> errors;  // In the text's order, several of one line by their place in it.
  int doubtful = 0;                // A capture error if it is CUDA's: "error 901", and nothing says whose; 0 if none.
  std::string call;                // The call that the driver's log names first for another error than 901; "" if none.
  size_t call_line = 0;
  size_t exception_line = 0;    // The Python exception that a capture error follows from; 0 if there is none.
  bool about_captures = false;  // It speaks of captures or CUDA graphs at all,
  bool says_failed = false;     // or says in words that one failed.

  size_t first_capture_error() const;  // Its line; 0 if there is none.
  bool has_capture_error() const { return first_capture_error() != 0; }
  bool only_invalidated() const;  // 901 is the only capture error: what broke the capture is not among them.
};

inline constexpr size_t kLongestLine = 2000;  // Bytes: what follows in a line is seldom the error.

ErrorText parse_error_text(std::string_view text);

// Where a cue is first found: the number of the line, 0 if it is not. Parts that " + " joins may stand in different
// lines. Case does not count. A cue that begins or ends in a letter is found as a word only; where it ends in "*" the
// word may go on.
size_t find_evidence(const ErrorText& text, std::string_view cue);

// The same where the text's errors are: what a log says as it starts, or lists of a machine, broke no capture. Nor did
// the call that returned a 901 which stands alone.
size_t find_near(const ErrorText& text, std::string_view cue);

// Where a call is refused, or in a stack: a call that is only mentioned may well have succeeded.
size_t find_refused(const ErrorText& text, std::string_view call);

}  // namespace recapture::explain
