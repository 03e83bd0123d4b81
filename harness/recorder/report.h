// What the two ways of hearing have in common: a call that failed, and where it is reported to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/exceptions.h"

namespace recapture {

// How many calls of a process blame is told of at most: so many that failed, and as many that silently are in no graph.
constexpr size_t kMostCalls = 2000;

struct FailedCall {
  std::string api;
  int code = 0;
  Part part = Part::Suspect;
  bool accused = false;           // The one that is named where only one can be.
  bool in_log = false;            // Whether the driver's log has it, and
  std::string sentence;           // its sentence there.
  std::optional<bool> capturing;  // Whether its thread captures, where that is known.
  bool on_capture = false;        // It is about a stream on which a capture is open, as far as CUPTI reports it.
  CaptureMode mode = CaptureMode::Unknown;
  size_t capture = 0;            // The number of the capture that it is in or beside, where that is known,
  std::optional<size_t> latest;  // and of the one that had begun last.
};

// Work that was done at once while a capture was open, or an end of a capture that recorded nothing.
struct SilentCall {
  std::string api, kernel;
  uintptr_t stream = 0;
  size_t capture = 0;
  bool waited = false;  // The capturing thread stood still meanwhile; the work is another's.
};

// What is known of the captures while a call is made, by the thread that makes it.
struct Standing {
  bool capturing = false;
  CaptureMode mode = CaptureMode::Unknown;
  size_t capture = 0;  // The number of the one that it is in or beside,
  size_t latest = 0;   // and of the one that has begun last.
};

// To be called inside the call that failed, on its thread.
void report_call(const FailedCall& call);

// For `blame --deep`; inside the call too, which has succeeded.
void report_call(const SilentCall& call);
void report_begun(size_t capture, uintptr_t stream, CaptureMode mode);

// A capture that an exception has ended, on the thread that ended it and outside of any call; and how many calls that
// failed have been reported so far.
void report_given_up(const GivenUp& capture);
size_t failed_calls();

// As long as it lives, what the driver's log has of calls by this thread is not reported: they are our own.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// Python's torch.__version__.
void report_torch(const std::string& version);

// Why nothing is heard, or "".
void report_state(const std::string& way, const std::string& why_not);

// What CUPTI is heard for.
struct Hearing {
  bool always = false;     // Every call at any time.
  bool culprits = false;   // Calls that break captures; otherwise somebody else names them.
  bool silent = false;     // What silently is not in a graph.
  bool for_blame = false;  // Which judges by itself, and is told of all that fails.
};

// Both start to hear, and return why they cannot, or "".
std::string hear_log();
// The same, but only for heard_in_log(): somebody else names the calls.
std::string hear_log_beside();
std::string hear_cupti(Hearing what);

// What the log has said of the latest call of this thread that failed, if that is this one; once. CUPTI may come first:
// then the log's words are reported when they come.
std::optional<std::string> heard_in_log(std::string_view api, int code);
void report_log(const std::string& api, const std::string& sentence);

// Inside a call that failed, and whether that was to end a capture: then this is how things stood before. Nothing where
// CUPTI is not heard.
std::optional<Standing> standing(bool of_end);

}  // namespace recapture
