// Hearing through CUPTI: for drivers that have no log, and for what the log does not tell, the mode of the capture and
// who captures. It listens to the driver's calls only; listening to the runtime's as well makes Python programs crash.
// A subscription alone makes replays of small kernels 14 % slower, so it is never there unasked.
//
// It hears every call only while a capture is open that is not broken yet, and otherwise those that open and close
// captures and those that may meet an event of a capture after it. `always` keeps it listening to everything, and then
// it calls CUPTI only at the start and never out of a callback.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <type_traits>

#include "harness/case/cuda_errors.h"
#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/cupti_abi.h"
#include "harness/recorder/find_cupti.h"
#include "harness/recorder/report.h"

namespace recapture {
namespace {

// Callbacks come on every thread and until the last moment of the process, so nothing here has a destructor that acts.
cupti::Functions functions;
cupti::Subscriber subscriber = nullptr;
std::array<Call, 2048> calls{};  // By CUPTI's id.
cupti::CallId ids = 0;           // How many ids there are.
bool always = false;

Captures captures;
std::mutex captures_mutex;  // Never held while CUPTI is called.
bool hears_all = false;
std::mutex switch_mutex;                                   // CUPTI wants the calls that switch one after the other.
thread_local CaptureMode exchanged = CaptureMode::Global;  // What this thread last gave to the exchange call.

long this_thread() { return syscall(SYS_gettid); }

std::string in_words(const char* call, int result) {
  std::string text = std::string(call) + " returned " + std::to_string(result);
  // CUPTI's own function for these names needs a CUPTI that has started.
  if (result == cupti::kNotCompatible) text += ", CUPTI and the driver do not fit";
  if (result == cupti::kNotInitialized) text += ", CUPTI does not start";
  if (result == cupti::kInsufficientPrivileges) text += ", privileges are missing";
  if (result == cupti::kMultipleSubscribers) text += ", a profiler or debugger is attached";
  return text;
}

// Why CUPTI refuses, or nothing.
std::string hear(bool all) {
  const int domain = functions.enable_domain(all, subscriber, cupti::kDriverApi);
  if (domain != cupti::kSuccess) return in_words("cuptiEnableDomain", domain);
  if (all) return {};
  for (cupti::CallId id = 0; id < ids; ++id) {
    if (!is_always_heard(calls[id].kind)) continue;
    const int callback = functions.enable_callback(1, subscriber, cupti::kDriverApi, id);
    if (callback != cupti::kSuccess) return in_words("cuptiEnableCallback", callback);
  }
  return {};
}

// CUPTI's documents don't forbid these calls in a callback, and ask only that they come one at a time. While it narrows
// down, for some microseconds, a capture begun on another thread goes unseen.
void hear_what_is_needed() {
  const std::lock_guard<std::mutex> one_at_a_time(switch_mutex);
  bool wanted;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    wanted = captures.lack_culprit();
  }
  if (wanted == hears_all) return;
  hears_all = wanted;
  if (const std::string why_not = hear(wanted); !why_not.empty()) report_state("CUPTI", why_not);
}

template <class Parameters>
const Parameters& parameters(const cupti::CallbackData& data) {
  return *static_cast<const Parameters*>(data.parameters);
}

uintptr_t stream_of(const cupti::CallbackData& data, Call call) {
  const auto stream = reinterpret_cast<uintptr_t>(parameters<cupti::OnStream>(data).stream);
  return stream == 0 && call.per_thread ? Captures::kPerThreadStream : stream;
}

// Names the call if it is a culprit, and returns whether it is.
bool named(cupti::CallId id, const cupti::CallbackData& data, Call call, int code) {
  FailedCall failed;
  failed.code = code;
  failed.accused = true;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    const bool accused = call.kind == CallKind::End ? captures.accuse_end(stream_of(data, call), this_thread(), code)
                                                    : captures.accuse(code);
    if (!accused) return false;
    failed.capturing = captures.capturing(this_thread());
    failed.mode = captures.mode(this_thread(), exchanged);
  }
  const char* api = nullptr;
  if (functions.callback_name(cupti::kDriverApi, id, &api) != cupti::kSuccess || !api) api = data.function;
  failed.api = api ? api : "unknown";
  failed.part = part_of(failed.api, code);
  report(failed);
  return true;
}

// Returns whether it can have changed which captures are open.
bool followed(const cupti::CallbackData& data, Call call, int code) {
  CaptureMode mode = CaptureMode::Global;
  switch (call.kind) {
    case CallKind::Begin:
      mode = static_cast<CaptureMode>(parameters<cupti::BeginCapture>(data).mode);
      break;
    case CallKind::BeginToGraph:
      mode = static_cast<CaptureMode>(parameters<cupti::BeginCaptureToGraph>(data).mode);
      break;
    case CallKind::BeginGlobal:
    case CallKind::End:
    case CallKind::Destroy:
      break;
    default:
      return false;
  }
  if (call.kind != CallKind::End && code != cupti::kSuccess) return false;
  const uintptr_t stream = stream_of(data, call);
  const std::lock_guard<std::mutex> lock(captures_mutex);
  if (call.kind == CallKind::End) {
    captures.ended(stream, this_thread(), code);
  } else if (call.kind == CallKind::Destroy) {
    captures.destroyed(stream);
  } else {
    captures.begun(stream, mode, this_thread());
  }
  return true;
}

void on_call(void*, int domain, cupti::CallId id, const void* callback_data) {
  if (domain != cupti::kDriverApi) return;
  const auto& data = *static_cast<const cupti::CallbackData*>(callback_data);
  const Call call = id < ids ? calls[id] : Call{};
  // The exchange call overwrites its argument, so the new mode waits beside the call; 0 there means nothing seen.
  const bool exchanges = call.kind == CallKind::Exchange && data.carried;
  if (data.site == cupti::kEnter) {
    const int* mode = exchanges ? parameters<cupti::ExchangeMode>(data).mode : nullptr;
    if (exchanges) *data.carried = mode ? static_cast<uint64_t>(*mode) + 1 : 0;
    return;
  }
  const int code = *static_cast<const int*>(data.result);
  if (exchanges && code == cupti::kSuccess && *data.carried != 0) {
    exchanged = static_cast<CaptureMode>(*data.carried - 1);
  }
  const bool reported = is_capture_error(code) && call.kind != CallKind::Query && named(id, data, call, code);
  const bool changed = followed(data, call, code);
  if ((reported || changed) && !always) hear_what_is_needed();
}

}  // namespace

std::string hear_cupti(bool everything) {
  void* library = find_cupti();
  if (!library) return "CUPTI is not to be found";
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    return function != nullptr;
  };
  if (!find(functions.subscribe, "cuptiSubscribe") || !find(functions.enable_domain, "cuptiEnableDomain") ||
      !find(functions.enable_callback, "cuptiEnableCallback") ||
      !find(functions.callback_name, "cuptiGetCallbackName")) {
    return "this CUPTI lacks a function";
  }
  const int subscribed = functions.subscribe(&subscriber, on_call, nullptr);
  if (subscribed != cupti::kSuccess) return in_words("cuptiSubscribe", subscribed);

  // Ids are without gaps from 0, which is invalid and has a name all the same.
  const char* api = nullptr;
  for (; ids < calls.size() && functions.callback_name(cupti::kDriverApi, ids, &api) == cupti::kSuccess && api; ++ids) {
    calls[ids] = call_of(api);
    api = nullptr;
  }
  hears_all = always = everything;
  return hear(always);
}

}  // namespace recapture
