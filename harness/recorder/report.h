// Shared by both sources of the recorder: a failed call, and reporting it.
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

// At most how many calls of a process are reported to blame: failed ones, and as many that are silently in no graph.
constexpr size_t kMostCalls = 2000;

struct FailedCall {
  std::string api;
  int code = 0;
  Part part = Part::Suspect;
  bool accused = false;           // The one to name if only one can be named.
  bool in_log = false;            // Whether the driver's log has it, and
  std::string sentence;           // its sentence there.
  std::optional<bool> capturing;  // Whether its thread captures, if known.
  bool on_capture = false;        // It concerns a stream with an open capture, as far as CUPTI reports it.
  CaptureMode mode = CaptureMode::Unknown;
  size_t capture = 0;            // The number of the capture that it is in or beside, if known.
  std::optional<size_t> latest;  // The number of the capture that began last.
};

// Work that ran at once while a capture was open, or the end of an empty capture.
struct SilentCall {
  std::string api, kernel;
  uintptr_t stream = 0;
  size_t capture = 0;
  bool waited = false;  // The capturing thread was blocked meanwhile; the work is another thread's.
};

// The state of the captures during a call, for its thread.
struct Standing {
  bool capturing = false;
  CaptureMode mode = CaptureMode::Unknown;
  size_t capture = 0;  // The number of the one that it is in or beside,
  size_t latest = 0;   // and of the one that began last.
};

// Call it inside the failed call, on its thread.
void report_call(const FailedCall& call);

// For `blame --deep`; also inside the call, which has succeeded.
void report_call(const SilentCall& call);
void report_begun(size_t capture, uintptr_t stream, CaptureMode mode);

// Reports a capture that an exception ended, on the thread that ended it and outside any call; and returns how many
// failed calls have been reported so far.
void report_given_up(const GivenUp& capture);
size_t failed_calls();

// During its lifetime the driver's log of this thread's calls is not reported: the calls are our own.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// Python's torch.__version__, and the rank in torch's process group.
void report_torch(const std::string& version);
void report_rank(const std::string& rank);

// Why the recorder is off, or "".
void report_state(const std::string& way, const std::string& why_not);

// What CUPTI is used for.
struct Hearing {
  bool always = false;     // Every call at any time.
  bool culprits = false;   // Calls that break captures; otherwise the log names them.
  bool silent = false;     // Work that is silently in no graph.
  bool for_blame = false;  // Report all failures: blame judges by itself.
};

// Start a source, and return why it cannot start, or "".
std::string hear_log();
// The same, but only for heard_in_log(): CUPTI names the calls.
std::string hear_log_beside();
std::string hear_cupti(Hearing what);

// The log's message for this thread's latest failed call, if it is this one; once. If CUPTI is earlier, the message is
// reported when it arrives.
std::optional<std::string> heard_in_log(std::string_view api, int code);
void report_log(const std::string& api, const std::string& sentence);

// For a failed call, called inside it: the state of the captures. `of_end`: the call was to end a capture, and the
// state is the one before it. Nothing without CUPTI.
std::optional<Standing> standing(bool of_end);

}  // namespace recapture
