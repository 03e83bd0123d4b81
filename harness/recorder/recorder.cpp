// librecorder.so names the call that broke a stream capture: the first driver call in it that returns a code from 900
// to 910.
//
// It goes into any CUDA program, with nothing to change in it: CUDA_INJECTION64_PATH=librecorder.so, which the driver
// loads in cuInit. It listens through CUPTI to the driver's calls only; listening to the runtime's as well makes Python
// programs crash. It says what it has to say as an event where RECAPTURE_EVENTS names a descriptor
// (harness/case/events.h), otherwise in words at the end of the file RECAPTURE_RECORDER_LOG, otherwise on stderr.
//
// To keep its cost out of eager work and replays it hears every call only while a capture is open that is not broken
// yet, and otherwise those that open and close captures and those that may meet an event of a capture after it.
// RECAPTURE_RECORDER=always keeps it listening to everything, and then it calls CUPTI only at the start and never out
// of a callback.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "harness/case/cuda_errors.h"
#include "harness/case/events.h"
#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/culprit.h"
#include "harness/recorder/cupti_abi.h"
#include "harness/recorder/find_cupti.h"
#include "harness/recorder/frames.h"

namespace recapture {
namespace {

// Callbacks come on every thread and until the last moment of the process, so nothing here has a destructor that acts.
cupti::Functions functions;
cupti::Subscriber subscriber = nullptr;
std::array<Call, 2048> calls{};  // By CUPTI's id.
cupti::CallId ids = 0;           // How many ids there are.
bool always = false;
int events = -1;
std::array<char, 4096> log_path{};
const void* own_base = nullptr;

Captures captures;
std::mutex captures_mutex;  // Never held while CUPTI is called.
bool hears_all = false;
std::mutex switch_mutex;                                   // CUPTI wants the calls that switch one after the other.
thread_local CaptureMode exchanged = CaptureMode::Global;  // What this thread last gave to the exchange call.

long this_thread() { return syscall(SYS_gettid); }

// The event where the runner listens, otherwise the sentence for a person.
void say(const std::string& event, const std::string& words) {
  const int before = errno;
  if (events >= 0 && fcntl(events, F_GETFD) >= 0) {
    [[maybe_unused]] const ssize_t written = write(events, event.data(), event.size());
  } else {
    const std::string line = "recapture recorder, process " + std::to_string(getpid()) + ": " + words + "\n";
    const int log = log_path[0] ? open(log_path.data(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    [[maybe_unused]] const ssize_t written = write(log >= 0 ? log : STDERR_FILENO, line.data(), line.size());
    if (log >= 0) close(log);
  }
  errno = before;
}

void say_state(const std::string& why_not) {
  say(event_line(key::recorder, why_not.empty() ? "on" : why_not), why_not.empty() ? "on" : "off, " + why_not);
}

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
  if (const std::string why_not = hear(wanted); !why_not.empty()) say_state(why_not);
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
  Culprit culprit;
  culprit.code = code;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    const bool accused = call.kind == CallKind::End ? captures.accuse_end(stream_of(data, call), this_thread(), code)
                                                    : captures.accuse(code);
    if (!accused) return false;
    culprit.capturing = captures.capturing(this_thread());
    culprit.mode = captures.mode(this_thread(), exchanged);
  }
  const char* api = nullptr;
  if (functions.callback_name(cupti::kDriverApi, id, &api) != cupti::kSuccess || !api) api = data.function;
  culprit.api = api ? api : "unknown";
  culprit.frames = callers(own_base);
  say(culprit_event(culprit), sentence(culprit));
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

// Why it stays off, or nothing.
std::string start() {
  // Some releases of CUPTI recurse without end in whatever is called first where there is no driver.
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) return "the process has no CUDA driver loaded";
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
  const char* mode = std::getenv("RECAPTURE_RECORDER");
  always = mode && std::string_view(mode) == "always";
  hears_all = always;
  void* warm[4];
  backtrace(warm, 4);  // The first call loads the unwinder, which must not happen in a callback.
  return hear(always);
}

}  // namespace
}  // namespace recapture

// The driver calls it in cuInit. It always reports success, because the program goes on without the recorder too.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  using namespace recapture;
  static std::atomic<bool> called{false};
  if (called.exchange(true)) return 1;
  // Not this function's own address: LibTorch exports one of the same name, and the symbol would name that.
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&on_call), &self);
  own_base = self.dli_fbase;
  if (const char* number = std::getenv(kEventsVariable)) events = std::atoi(number);
  if (const char* path = std::getenv("RECAPTURE_RECORDER_LOG")) {
    std::snprintf(log_path.data(), log_path.size(), "%s", path);
  }
  say_state(start());
  return 1;
}
