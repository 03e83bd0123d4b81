// What a pasted text shows: an error message, a traceback, a log of any length, lines of the driver's log.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/explain/log_reader.h"

namespace recapture::explain {

// A CUDA error that a text names, by its number, its name or its text.
struct NamedError {
  int code;
  size_t line;  // From 1, as all lines here: of `lines`.
};

// A frame of a Python traceback, with the statement that it shows.
struct Frame {
  size_t line = 0, statement = 0, statement_end = 0;  // 0 if it shows none.
  std::string file;
  bool is_library = false;  // Of PyTorch, Triton or Python itself.
};

// A Python traceback, the outermost frame first, and the line of its exception.
struct Traceback {
  std::vector<Frame> frames;
  size_t exception = 0;
};

struct ErrorText {
  std::vector<std::string> lines;  // What was read of the text, in pieces of at most kLongestLine.
  std::vector<size_t> numbers;     // Of each, its line in the text.
  std::string lower;               // All of it in lower case, for cues, and where each line begins there. HIP's calls
  std::vector<size_t> starts;      // have CUDA's names.
  // `lower`, with spaces for what stands far from the errors, lists what is installed or did not run.
  std::string near;
  std::string words;   // `near`, with spaces for CUDA's own messages: what people write.
  std::string inside;  // `near`, with spaces for what is neither in the traceback nor in the stack of a capture error.
  std::vector<NamedError> errors;  // In the text's order, several of one line by their place in it.
  std::vector<Traceback> tracebacks;
  int doubtful = 0;  // A capture error if it is CUDA's: "error 901", and nothing says whose; 0 if none.
  std::string call;  // The call that the driver's log names first for another error than 901; "" if none.
  size_t call_line = 0;
  size_t exception_line = 0;  // The Python exception that a capture error follows from; 0 if there is none.
  bool about_graphs = false;  // It speaks of CUDA graphs or of stream captures at all,
  bool says_failed = false;   // or says in words that a capture failed.
  bool is_python = false, is_hip = false;
  std::optional<bool> in_other_thread;  // Whether a thread made the call that does not capture, if the text has it.
  std::string release;                  // PyTorch's, where the text names it, without "+cu130".
  std::string script;                   // The Python program's file, where a traceback begins with it.

  size_t first_capture_error() const;  // Its line; 0 if there is none.
  bool has_capture_error() const { return first_capture_error() != 0; }
  bool only_invalidated() const;  // 901 is the only capture error: what broke the capture is not among them.
};

ErrorText parse_error_text(std::vector<LogLine> lines);
ErrorText parse_error_text(std::string_view text);

// The text as it was before a terminal or a mail program broke its lines, in each way that may be; none if it does not
// look so.
std::vector<ErrorText> unwrapped(const ErrorText& text);

// The innermost statement of the traceback that ends in the error or exception of a line, of the program's own files
// where there is one; nullptr if no traceback shows it.
const Frame* failing_frame(const ErrorText& text, size_t error);
std::string statement_of(const ErrorText& text, const Frame& frame);

// Lines of code that a short text without a traceback quotes.
std::vector<size_t> code_lines(const ErrorText& text);

// Where a cue is first found: the number of the line, 0 if it is not. Parts that " + " joins may stand in different
// lines, not far from each other. Case does not count. A cue that begins or ends in a letter is found as a word only;
// where it ends in "*" the word may go on.
size_t find_evidence(const ErrorText& text, std::string_view cue);

// The same where the text's errors are: what a log says as it starts, or lists of a machine, broke no capture. Nor did
// the call that returned a 901 which stands alone.
size_t find_near(const ErrorText& text, std::string_view cue);

// The same in the traceback or the stack of the error.
size_t find_inside(const ErrorText& text, std::string_view cue);

// Where a call is refused, or in a stack: a call that is only mentioned may well have succeeded.
size_t find_refused(const ErrorText& text, std::string_view call);

// The line of a place in `lower`.
size_t line_at(const ErrorText& text, size_t at);

}  // namespace recapture::explain
