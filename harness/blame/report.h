// What the recorder saw in the processes of a program, and which call broke which capture. The recorder's lines are
// facts (recorder.cpp); who is culprit and who is victim is decided here.
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
  uintptr_t handle = 0;  // What Python calls it.
  std::string name;
  bool main = false;
};

// A driver call that failed, or that --deep has something to say of.
struct Call {
  std::string api;
  int code = 0;
  Part part = Part::None;
  std::string sentence;  // The driver's, "" if it had none.
  std::string mode;      // "unknown" from the log.
  std::optional<bool> capturing;
  bool in_log = false;      // The driver's log has it; its sentence says whose capture.
  bool on_capture = false;  // It is about a stream that captures.
  size_t unreported = 0;
  size_t order = 0;              // Which of the process's failed calls it is, from 0.
  size_t capture = 0;            // The number of the capture that it is in or beside, 0 if that is not known,
  std::optional<size_t> latest;  // and of the one that had begun last; 0 before the first.
  uintptr_t stream = 0;          // This and the next two only with --deep.
  std::string kernel;
  bool waited = false;  // The capturing thread stood still meanwhile.
  Thread thread;
  std::vector<Frame> frames;           // Innermost first, here and below.
  std::vector<python::Thread> python;  // All threads that run Python, where it was asked.

  const python::Thread* python_of(uintptr_t handle) const;
};

// An exception, as the recorder describes it.
struct Raised {
  std::string type, text;
  std::vector<python::Frame> frames;  // Innermost first; none of C++.
};

// A capture that ended, or was left open, while an exception was on its way.
struct GivenUp {
  std::string
      at;  // As the recorder names it (recorder/exceptions.h): "begin", "inside", "end", "exit", "terminate", "abort".
  Thread thread;
  std::vector<Raised> raised;        // The exception, then what it was raised from; none where it was not seen.
  std::vector<python::Frame> begun;  // Where the capture began, innermost first.
  std::vector<Frame> stack;          // In C++, where it was thrown.
  size_t failed_before = 0, failed_after = 0;  // How many calls had failed in the process when it began and ended.

  // What all the others follow from; none where it was not seen.
  const Raised* root() const { return raised.empty() ? nullptr : &raised.back(); }
};

// A capture that failed.
struct Failure {
  std::optional<Call> culprit;           // None if it was not recorded, or if no call was it but an exception.
  std::vector<Call> victims;             // What failed after it and because of it, or at least in the same capture.
  std::optional<Call> end;               // The call that ended the capture, none if none was seen.
  size_t ends = 0;                       // How many captures it has broken.
  size_t unreported = 0;                 // Victims of which nothing is known.
  std::optional<Call> begun = {};        // The call that began the capture, with --deep.
  std::optional<GivenUp> given_up = {};  // By the exception that left it; without a culprit, because of it.
  size_t times = 1;                      // How many captures the same exception has ended at the same place.

  bool is_by_exception() const { return given_up && !culprit; }

  // The thread that captured, if it is known.
  std::optional<Thread> capturing() const;
};

// Work that is in no graph, or a graph that has no work. Alike ones of one place are one.
struct Silent {
  Call call;
  size_t times = 1;
  std::optional<Call> begun;

  bool is_empty_graph() const { return kind_of_call(call.api) == CallKind::End; }
};

// How many calls the recorder has left out at least.
struct Cut {
  size_t failed = 0, refused = 0, silent = 0, given_up = 0;
};

struct Process {
  int pid = 0;
  std::string rank, local_rank;  // "" outside of torchrun and the like.
  std::string program, by;
  std::string torch;    // The release of its PyTorch or LibTorch, "" if it has none or that is unknown.
  std::string why_not;  // Why nothing was heard, or "".
  std::vector<Failure> failures;
  std::vector<Call> refused;  // Failed, and no capture by it.
  std::string why_not_deep;   // Why --deep was not possible, or "".
  std::vector<Silent> silent;
  Cut cut = {};
};

// In the order in which they began to be heard. Lines that are no lines of the recorder's are skipped.
std::vector<Process> read_report(std::string_view text);

// Whether every line of a report is whole: where a disk is full, or the size of files is limited, one is cut, and those
// that were to follow are not there.
bool is_whole(std::string_view text);

}  // namespace recapture::blame
