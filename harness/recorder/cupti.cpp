// The recorder's CUPTI source: for drivers without a log, and for what the log lacks, the capture's mode and its
// thread. It subscribes to driver calls only; runtime calls as well make Python programs crash. A subscription alone
// makes replays of small kernels 14 % slower, so it is only created on request.
//
// It follows every call only while a valid capture is open, otherwise only calls that open and close captures and calls
// that may use an event of one. With `always` it follows every call, and calls CUPTI only at the start and never in a
// callback.
//
// For `blame --deep` it also follows all calls that queue work. Work that succeeds while a capture is open, on a stream
// that does not capture, runs at once and is in no graph. Inside the callback, after the call, it asks the driver
// whether a stream captures; failed calls are left out. Asking before the call was tried on a GPU and did no harm.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "harness/case/cuda_errors.h"
#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/cupti_abi.h"
#include "harness/recorder/driver_log.h"
#include "harness/recorder/find_cupti.h"
#include "harness/recorder/report.h"

namespace recapture {
namespace {

// Callbacks come on every thread until the process ends, so nothing here has a non-trivial destructor.
cupti::Functions functions;
cupti::Subscriber subscriber = nullptr;
std::array<Call, 2048> calls{};  // Indexed by CUPTI's id.
cupti::CallId ids = 0;           // The number of ids.
Hearing hearing;
bool started = false;

// The driver's.
int (*is_capturing)(void* stream, int* status) = nullptr;              // cuStreamIsCapturing
int (*nodes_of)(void* graph, void** nodes, size_t* number) = nullptr;  // cuGraphGetNodes

Captures captures;
std::atomic<size_t> open_captures{0};
std::mutex captures_mutex;  // Never held while CUPTI is called.
bool hears_all = false;
std::mutex switch_mutex;                                   // CUPTI requires the enabling calls one at a time.
thread_local CaptureMode exchanged = CaptureMode::Global;  // The last argument of this thread's exchange call.

// This thread's latest failed end of a capture: the log may report it before CUPTI does, or after, when the capture is
// no longer open. The first source leaves its data for the second.
thread_local bool end_is_logged = false;
thread_local std::optional<Standing> before_end;

long this_thread() { return syscall(SYS_gettid); }

std::string render_text(const char* call, int result) {
  std::string text = std::string(call) + " returned " + std::to_string(result);
  // CUPTI's own function for these names needs an initialised CUPTI.
  if (result == cupti::kNotCompatible) text += ", CUPTI and the driver do not fit";
  if (result == cupti::kNotInitialized) text += ", CUPTI does not start";
  if (result == cupti::kInsufficientPrivileges) text += ", privileges are missing";
  if (result == cupti::kMultipleSubscribers) text += ", a profiler or debugger is attached";
  return text;
}

// The reason why CUPTI refuses, or nothing.
std::string hear(bool all) {
  const int domain = functions.enable_domain(all, subscriber, cupti::kDriverApi);
  if (domain != cupti::kSuccess) return render_text("cuptiEnableDomain", domain);
  if (all) return {};
  for (cupti::CallId id = 0; id < ids; ++id) {
    const bool wanted = is_always_heard(calls[id].kind) || (hearing.silent && calls[id].kind == CallKind::Work);
    if (!wanted) continue;
    const int callback = functions.enable_callback(1, subscriber, cupti::kDriverApi, id);
    if (callback != cupti::kSuccess) return render_text("cuptiEnableCallback", callback);
  }
  return {};
}

// CUPTI's documentation allows these calls in a callback, but only one at a time. For some microseconds during the
// switch, a capture that begins on another thread is missed.
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

// The stream of a call that queues work; 0 is the legacy default stream.
uintptr_t stream_of_work(const cupti::CallbackData& data, Call call) {
  const char* from = static_cast<const char*>(data.parameters);
  size_t offset = call.stream;
  if (call.stream == Call::kInConfig) {
    from = *static_cast<const char* const*>(data.parameters);
    if (from == nullptr) return 0;
    offset = offsetof(cupti::LaunchConfig, stream);
  }
  uintptr_t stream = 0;
  std::memcpy(&stream, from + offset, sizeof stream);
  constexpr uintptr_t kLegacy = 1;
  return stream == 0 && call.per_thread ? Captures::kPerThreadStream : stream == kLegacy ? 0 : stream;
}

// Whether the call concerns a capturing stream: then it breaks that capture, on any thread.
bool is_on_capture(const std::string& api, const cupti::CallbackData& data, Call call) {
  const bool waits = api.rfind("cuStreamSynchronize", 0) == 0 || api.rfind("cuStreamQuery", 0) == 0;
  if (data.parameters == nullptr || (!waits && call.kind != CallKind::Work)) return false;
  return captures.on(waits ? stream_of(data, call) : stream_of_work(data, call), this_thread()) != nullptr;
}

std::string name_of(cupti::CallId id, const cupti::CallbackData& data) {
  const char* api = nullptr;
  if (functions.callback_name(cupti::kDriverApi, id, &api) != cupti::kSuccess || !api) api = data.function;
  return api ? api : "unknown";
}

Standing standing_now() {
  const Captures::Capture* capture = captures.latest_of(this_thread());
  const bool capturing = capture != nullptr;
  for (const Captures::Capture& other : captures) {  // The strictest mode of other threads.
    if (!capturing && (capture == nullptr || other.mode < capture->mode)) capture = &other;
  }
  return {capturing, captures.mode(this_thread(), exchanged), capture == nullptr ? 0 : capture->number,
          captures.latest()};
}

// The same at the end of a capture, while it is still open.
Standing standing_at_end(const cupti::CallbackData& data, Call call) {
  Standing now = standing_now();
  if (const Captures::Capture* ended = captures.on(stream_of(data, call), this_thread())) {
    now = {ended->thread == this_thread(), ended->mode, ended->number, now.latest};
  }
  return now;
}

void take(FailedCall& failed, const Standing& now) {
  failed.capturing = now.capturing;
  failed.mode = now.mode;
  failed.capture = now.capture;
  failed.latest = now.latest;
}

void take_words_of_log(FailedCall& failed) {
  if (auto words = heard_in_log(failed.api, failed.code)) {
    failed.in_log = true;
    failed.sentence = std::move(*words);
  }
}

// Reports the call to blame. Returns whether it broke a valid capture.
bool told(cupti::CallId id, const cupti::CallbackData& data, Call call, int code) {
  static driver_log::Accuser accuser;
  FailedCall failed;
  failed.code = code;
  failed.api = name_of(id, data);
  failed.part = part_of(failed.api, code);
  if (failed.part == Part::None) return false;
  bool broken = false;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    // An end breaks no other capture, unless it is on the wrong stream or thread.
    const bool breaks = failed.part == Part::Suspect || failed.part == Part::Victim;
    if (breaks) broken = captures.broken_by(this_thread());
    failed.accused = accuser.names(failed.part);
    take(failed, call.kind == CallKind::End ? standing_at_end(data, call) : standing_now());
    failed.on_capture = is_on_capture(failed.api, data, call);
  }
  take_words_of_log(failed);
  report_call(failed);
  return broken;
}

// Names the call if it is a culprit, and returns whether it is. The result is in the records of every case.
bool named(cupti::CallId id, const cupti::CallbackData& data, Call call, int code) {
  FailedCall failed;
  failed.code = code;
  failed.api = name_of(id, data);
  failed.part = part_of(failed.api, code);
  failed.accused = true;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    // A refused copy is not the culprit, nor is a call unrelated to captures, such as an update of a graph; for the
    // others the capture's status decides.
    const bool refused = (failed.part == Part::Refused || failed.part == Part::None) && call.kind == CallKind::Other &&
                         captures.open() != 0;
    const bool accused = refused                      ? true
                         : call.kind == CallKind::End ? captures.accuse_end(stream_of(data, call), this_thread(), code)
                                                      : captures.mark_culprit(code);
    if (!accused) return false;
    take(failed, standing_now());
  }
  take_words_of_log(failed);
  report_call(failed);
  return true;
}

// Whether a thread of this process is blocked; false if unknown.
bool is_asleep(long thread) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%ld/stat", thread);
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  std::array<char, 128> text{};
  const ssize_t size = file < 0 ? 0 : read(file, text.data(), text.size() - 1);
  if (file >= 0) close(file);
  const char* after_name = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  return after_name != nullptr && std::strncmp(after_name, ") S", 3) == 0;
}

// Reports work that ran outside every graph, by the capturing thread or by a thread that it may be waiting for.
void look_at_work(cupti::CallId id, const cupti::CallbackData& data, Call call) {
  SilentCall silent;
  silent.stream = stream_of_work(data, call);
  int status = 0;
  // The legacy stream never captures, and querying it beside a blocking capture is an error.
  if (silent.stream != 0 &&
      (is_capturing(reinterpret_cast<void*>(silent.stream), &status) != cupti::kSuccess || status != 0)) {
    return;
  }
  std::array<Captures::Capture, Captures::kMost> others{};
  size_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    if (const Captures::Capture* own = captures.latest_of(this_thread())) {
      silent.capture = own->number;
    } else {
      for (const Captures::Capture& other : captures) others[number++] = other;
    }
  }
  for (size_t i = 0; i < number && silent.capture == 0; ++i) {
    if (!is_asleep(others[i].thread)) continue;
    silent.capture = others[i].number;
    silent.waited = true;
  }
  if (silent.capture == 0) return;
  silent.api = name_of(id, data);
  if (data.kernel != nullptr) silent.kernel = data.kernel;
  report_call(silent);
}

// Reports the end of a capture that recorded nothing.
void look_at_graph(cupti::CallId id, const cupti::CallbackData& data) {
  const auto& ended = parameters<cupti::EndCapture>(data);
  size_t number = 1;
  if (ended.graph == nullptr || *ended.graph == nullptr) return;
  if (nodes_of(*ended.graph, nullptr, &number) != cupti::kSuccess || number != 0) return;
  SilentCall silent;
  silent.api = name_of(id, data);
  silent.stream = stream_of(data, calls[id]);
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    silent.capture = standing_now().capture;
  }
  report_call(silent);
}

// At a failed end of a capture, if the log names the calls.
void keep_for_log(const cupti::CallbackData& data, Call call) {
  if (std::exchange(end_is_logged, false)) return;
  const std::lock_guard<std::mutex> lock(captures_mutex);
  before_end = standing_at_end(data, call);
}

// Returns whether the call may have changed which captures are open.
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
  size_t begun = 0;
  {
    const std::lock_guard<std::mutex> lock(captures_mutex);
    if (call.kind == CallKind::End) {
      captures.ended(stream, this_thread(), code);
    } else if (call.kind == CallKind::Destroy) {
      captures.destroyed(stream);
    } else {
      begun = captures.begun(stream, mode, this_thread());
    }
    open_captures = captures.open();
  }
  if (hearing.silent && begun != 0) report_begun(begun, stream, mode);
  return true;
}

void on_call(void*, int domain, cupti::CallId id, const void* callback_data) {
  if (domain != cupti::kDriverApi) return;
  const auto& data = *static_cast<const cupti::CallbackData*>(callback_data);
  const Call call = id < ids ? calls[id] : Call{};
  // The exchange call overwrites its argument, so the new mode is stored beside the call; 0 means not seen.
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
  if (hearing.silent && code == cupti::kSuccess) {
    if (call.kind == CallKind::Work && open_captures != 0) look_at_work(id, data, call);
    if (call.kind == CallKind::End) look_at_graph(id, data);
  }
  bool reported = false;
  if (hearing.culprits && hearing.for_blame) {
    reported = code != cupti::kSuccess && told(id, data, call, code);
  } else if (hearing.culprits) {
    reported = is_capture_error(code) && call.kind != CallKind::Query && named(id, data, call, code);
  } else if (call.kind == CallKind::End && part_of("cuStreamEndCapture", code) != Part::None) {
    keep_for_log(data, call);
  }
  const bool changed = followed(data, call, code);
  if ((reported || changed) && hearing.culprits && !hearing.always) hear_what_is_needed();
}

// Allows other subscribers if possible; not in the suite's own runs, whose costs are recorded.
int subscribe() {
  cupti::SubscriberParameters beside;
  if (hearing.silent && functions.subscribe_beside &&
      functions.subscribe_beside(&subscriber, on_call, nullptr, &beside) == cupti::kSuccess) {
    return cupti::kSuccess;
  }
  return functions.subscribe(&subscriber, on_call, nullptr);
}

}  // namespace

std::string hear_cupti(Hearing what) {
  hearing = what;
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
  find(functions.subscribe_beside, "cuptiSubscribe_v2");
  if (what.silent) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    is_capturing = reinterpret_cast<decltype(is_capturing)>(driver ? dlsym(driver, "cuStreamIsCapturing") : nullptr);
    nodes_of = reinterpret_cast<decltype(nodes_of)>(driver ? dlsym(driver, "cuGraphGetNodes") : nullptr);
    if (!is_capturing || !nodes_of) return "this driver lacks cuStreamIsCapturing or cuGraphGetNodes";
  }
  const int subscribed = subscribe();
  if (subscribed != cupti::kSuccess) return render_text("cuptiSubscribe", subscribed);

  // Ids are contiguous from 0, which is invalid but has a name.
  const char* api = nullptr;
  for (; ids < calls.size() && functions.callback_name(cupti::kDriverApi, ids, &api) == cupti::kSuccess && api; ++ids) {
    calls[ids] = call_of(api);
    api = nullptr;
  }
  hears_all = what.always;
  std::string why_not = hear(what.always);
  started = why_not.empty();
  return why_not;
}

std::optional<Standing> standing(bool of_end) {
  if (!started) return std::nullopt;
  if (of_end) {
    if (before_end) return std::exchange(before_end, std::nullopt);
    end_is_logged = true;
  }
  const std::lock_guard<std::mutex> lock(captures_mutex);
  return standing_now();
}

}  // namespace recapture
