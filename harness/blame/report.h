// The recorder's output by process, and which call broke which capture. The recorder's lines are facts (recorder.cpp);
// culprits and victims are decided here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/recorder/calls.h"
#include "harness/recorder/frames.h"
#include "harness/recorder/python_text.h"

namespace recapture::blame {

struct Thread {
  int id = 0;
  uintptr_t handle = 0;  // Python's thread id.
  std::string name;
  bool main = false;
};

// A driver call that failed, or that --deep reports.
struct Call {
  std::string api;
  int code = 0;
  Part part = Part::None;
  std::string sentence;  // The driver's message; "" if none.
  std::string mode;      // "unknown" if from the log.
  std::optional<bool> capturing;
  bool in_log = false;      // It is in the driver's log, whose message names the kind of capture.
  bool on_capture = false;  // It concerns a capturing stream.
  size_t unreported = 0;
  size_t order = 0;              // Its index among the process's failed calls.
  size_t capture = 0;            // The number of the capture that it is in or beside; 0 if unknown.
  std::optional<size_t> latest;  // The capture that had begun last; 0 before the first.
  uintptr_t stream = 0;          // This and the next two only with --deep.
  std::string kernel;
  bool waited = false;  // The capturing thread was blocked meanwhile.
  Thread thread;
  std::vector<Frame> frames;           // Innermost first, here and below.
  std::vector<python::Thread> python;  // All threads that run Python, if recorded.

  const python::Thread* python_of(uintptr_t handle) const;
};

// An exception, as the recorder describes it.
struct Raised {
  std::string type, text;
  std::vector<python::Frame> frames;  // Innermost first; none of C++.
};

// A capture that ended, or was left open, during stack unwinding by an exception.
struct GivenUp {
  std::string
      at;  // The recorder's word (recorder/exceptions.h): "begin", "inside", "end", "exit", "terminate", "abort".
  Thread thread;
  std::vector<Raised> raised;                  // The exception, then its causes; empty if unseen.
  std::vector<python::Frame> begun;            // Where the capture began, innermost first.
  std::vector<Frame> stack;                    // In C++, where it was thrown.
  size_t failed_before = 0, failed_after = 0;  // How many calls had failed in the process when it began and ended.

  // The original exception; none if it was not seen.
  const Raised* root() const { return raised.empty() ? nullptr : &raised.back(); }
};

// A capture that failed.
struct Failure {
  std::optional<Call> culprit;           // None if it was not recorded, or if an exception ended the capture.
  std::vector<Call> victims;             // Later failures because of it, or at least in the same capture.
  std::optional<Call> end;               // The call that ended the capture, if seen.
  size_t ends = 0;                       // How many captures it has broken.
  size_t unreported = 0;                 // Victims without details.
  std::optional<Call> begun = {};        // The call that began the capture, with --deep.
  std::optional<GivenUp> given_up = {};  // The exception that left the capture; the cause if there is no culprit.
  size_t times = 1;                      // Captures ended by the same exception at the same place.

  bool is_by_exception() const { return given_up && !culprit; }

  // The capturing thread, if known.
  std::optional<Thread> capturing() const;
};

// Work that is in no graph, or a graph without work. Identical ones at one place are merged.
struct Silent {
  Call call;
  size_t times = 1;
  std::optional<Call> begun;

  bool is_empty_graph() const { return kind_of_call(call.api) == CallKind::End; }
};

// At least how many calls the recorder left out.
struct Cut {
  size_t failed = 0, refused = 0, silent = 0, given_up = 0;
};

struct Process {
  int pid = 0;
  std::string rank, local_rank;  // "" outside of torchrun and the like.
  std::string program, by;
  std::string torch;    // The release of its PyTorch or LibTorch; "" if none or unknown.
  std::string why_not;  // Why there is no output, or "".
  std::vector<Failure> failures;
  std::vector<Call> refused;  // Failed calls that broke no capture.
  std::string why_not_deep;   // Why --deep was not possible, or "".
  std::vector<Silent> silent;
  Cut cut = {};
};

// In the order of their first lines. Lines that the recorder did not write are skipped.
std::vector<Process> read_report(std::string_view text);

// Whether every line of a report is complete. A full disk or a file size limit cuts a line, and the following ones are
// missing.
bool is_whole(std::string_view text);

}  // namespace recapture::blame
