// Parses a pasted text: an error message, a traceback, a log of any length, lines of the driver's log.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/explain/log_reader.h"

namespace recapture::explain {

// A CUDA error that a text names, by its number, its name or its text.
struct NamedError {
  int code;
  size_t line;  // From 1, an index into `lines`, as everywhere here.
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
  std::vector<std::string> lines;  // The lines that were kept, in pieces of at most kLongestLine.
  std::vector<size_t> numbers;     // Of each, its line number in the text.
  std::string lower;               // The text in lower case, for cues, with CUDA's names for HIP's calls,
  std::vector<size_t> starts;      // and the start of each line in it.
  // `lower`, with spaces for text far from the errors, lists of installed packages, and code that did not run.
  std::string near;
  std::string words;               // `near`, with spaces for CUDA's own messages: people's words.
  std::string inside;              // `near`, with spaces outside the traceback and the stack of a capture error.
  std::vector<NamedError> errors;  // In the order of the text.
  std::vector<size_t>
      messages;  // Lines that report an error: an exception, a compiler's error, a program's last words.
  std::vector<Traceback> tracebacks;
  int doubtful = 0;  // A capture error whose origin is unknown: "error 901"; 0 if none.
  std::string call;  // The first call in the driver's log with an error other than 901; "" if none.
  size_t call_line = 0;
  size_t exception_line = 0;   // The Python exception that led to a capture error; 0 if none.
  size_t other_exception = 0;  // A Python exception with a traceback that is not of CUDA; 0 if none.
  bool about_graphs = false;   // The text mentions CUDA graphs or stream captures.
  bool says_failed = false;    // The text says in words that a capture failed.
  bool is_python = false, is_hip = false;
  bool is_of_nvidia = true;             // The text names no other vendor's runtime.
  std::optional<bool> in_other_thread;  // Whether a thread that does not capture made the call, if known.
  std::string release;                  // PyTorch's, if the text names it, without "+cu130".
  std::string script;                   // The Python program's file, if a traceback begins with it.

  size_t first_capture_error() const;  // Its line; 0 if there is none.
  bool has_capture_error() const { return first_capture_error() != 0; }
  bool only_invalidated() const;  // 901 is the only capture error, so the original error is missing.
};

ErrorText parse_error_text(std::vector<LogLine> lines);
ErrorText parse_error_text(std::string_view text);

// The text without line breaks of a terminal or a mail program, in each possible way; empty if it has no such breaks.
std::vector<ErrorText> unwrapped(const ErrorText& text);

// The innermost statement of the traceback that ends in the error or exception of a line, preferably in the program's
// own files; nullptr if no traceback shows it.
const Frame* failing_frame(const ErrorText& text, size_t error);
std::string statement_of(const ErrorText& text, const Frame& frame);

// Lines of code that a short text without a traceback quotes.
std::vector<size_t> code_lines(const ErrorText& text);

// Code between backticks in a short text without a traceback, each with its line.
std::vector<std::pair<size_t, std::string>> inline_code(const ErrorText& text);

// The number of the first line with a cue; 0 if there is none. Parts joined by " + " may be in different lines, not far
// from each other. Case does not count. A cue that begins or ends in a letter matches whole words; with a final "*" the
// word may continue.
size_t find_evidence(const ErrorText& text, std::string_view cue);

// The same near the text's errors: a log's start-up lines or lists of a machine broke no capture, nor did the call that
// returned a lone 901.
size_t find_near(const ErrorText& text, std::string_view cue);

// The same in the traceback or the stack of the error.
size_t find_inside(const ErrorText& text, std::string_view cue);

// The same where a call is refused, or in a stack: a call that is only mentioned may have succeeded.
size_t find_refused(const ErrorText& text, std::string_view call);

// The line of a place in `lower`.
size_t line_at(const ErrorText& text, size_t at);

}  // namespace recapture::explain
