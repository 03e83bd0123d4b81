// librecorder.so names the call that broke a stream capture. It works in any unmodified CUDA program:
// CUDA_INJECTION64_PATH=librecorder.so makes the driver load it in cuInit; RECAPTURE_CHAIN names the library that this
// variable named before. It can also be preloaded if the program is linked to the driver.
//
// It reads the driver's own log or, if the driver has none (before R575), uses CUPTI (log.cpp, cupti.cpp).
// RECAPTURE_RECORDER selects: `log`; `cupti`; `always`, which is CUPTI for every call at any time, with the log only
// for the driver's messages; or `aloof`, which is the same without Python: it is for tests of races.
//
// RECAPTURE_FEATURES, set by `recapture blame --features`, names the Python file that observes which CUDA-graph
// features a program uses; RECAPTURE_WITHIN names the processes that use the recorder from Python
// (python/recapture/_blame.py), which identifies their children.
//
// RECAPTURE_DEEP, set by `recapture blame --deep`, uses CUPTI besides the log: for the captures themselves, and for
// work that is silently not in them.
//
// Output goes, as an event, to the descriptor in RECAPTURE_EVENTS (harness/case/events.h); otherwise with all details,
// a JSON line for each call, to the end of the file RECAPTURE_BLAME, which `recapture blame` reads; otherwise as text
// to the end of the file RECAPTURE_RECORDER_LOG, otherwise to stderr.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/case/events.h"
#include "harness/recorder/culprit.h"
#include "harness/recorder/frames.h"
#include "harness/recorder/loaded.h"
#include "harness/recorder/python.h"
#include "harness/recorder/python_text.h"
#include "harness/recorder/report.h"
#include "harness/recorder/size_limit.h"
#include "harness/recorder/terminate.h"

namespace recapture {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::array<char, 4096>;

// Calls fail on every thread until the process ends, so nothing here has a non-trivial destructor.
int events = -1;
Path blame_path{}, log_path{};
const void* own_begin = nullptr;
thread_local bool is_quiet = false;
std::mutex report_mutex;
static_assert(std::is_trivially_destructible_v<std::mutex>);

Path path_in(const char* variable) {
  Path path{};
  if (const char* value = std::getenv(variable)) std::snprintf(path.data(), path.size(), "%s", value);
  return path;
}

enum class Appended { Yes, NotOpen, NotWritten };  // errno has why.

// One write: nothing is lost if the process dies next, and lines of other writers are not mixed in.
Appended append(const Path& path, int flags, const std::string& line) {
  const int file = path[0] ? open(path.data(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0644) : -1;
  if (file < 0) return Appended::NotOpen;
  const NoSizeSignal no_signal;
  const ssize_t written = write(file, line.data(), line.size());
  const int error = errno;
  close(file);
  errno = error;
  return written < 0 ? Appended::NotWritten : Appended::Yes;
}

// A link needs neither space nor a descriptor, so it can be made where the report cannot be written. `blame` reads it.
void leave_error(const Path& path, int error) {
  [[maybe_unused]] const int made =
      symlink(std::to_string(error).c_str(), std::string(path.data()).append(kErrorLink).c_str());
}

bool has_events() { return events >= 0 && fcntl(events, F_GETFD) >= 0; }

// Writes the event if the runner reads events, otherwise the sentence for a person.
void say(const std::string& event, const std::string& words) {
  if (has_events()) {
    [[maybe_unused]] const ssize_t written = write(events, event.data(), event.size());
    return;
  }
  const std::string line = "recapture recorder, process " + std::to_string(getpid()) + ": " + words + "\n";
  if (append(log_path, O_CREAT, line) != Appended::NotOpen) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

bool for_blame() { return blame_path[0] && !has_events(); }

void say_to_blame(const char* event, Json&& more) {
  Json line{{"event", event}, {"pid", getpid()}};
  line.update(more);
  const std::string text = line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (append(blame_path, 0, text) != Appended::Yes) leave_error(blame_path, errno);
}

std::string contents_of(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text{};
  const ssize_t size = file < 0 ? -1 : read(file, text.data(), text.size());
  if (file >= 0) close(file);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// The calling thread, and its C++ frames.
struct Caller {
  long thread = syscall(SYS_gettid);
  uintptr_t handle = static_cast<uintptr_t>(pthread_self());
  std::array<char, 16> name{};
  Stack stack = stack_here();

  Caller() { pthread_getname_np(pthread_self(), name.data(), name.size()); }
};

constexpr size_t kMostFrames = 48;

Json with(const Caller& caller, Json&& call) {
  Json frames = Json::array();
  for (const Frame& frame : frames_of(caller.stack, own_begin, kMostFrames)) {
    frames.push_back({{"function", frame.function}, {"module", frame.module}, {"offset", frame.offset}});
  }
  call["thread"] = {{"id", caller.thread},
                    {"handle", caller.handle},
                    {"name", caller.name.data()},
                    {"main", caller.thread == getpid()}};
  call["frames"] = std::move(frames);
  call["python"] = "";
  return std::move(call);
}

// How the latest captures began; reported only for captures that are mentioned. Never destroyed, since calls come until
// the process ends.
struct Begun {
  size_t capture = 0;
  uintptr_t stream = 0;
  CaptureMode mode = CaptureMode::Unknown;
  Caller caller;
  std::string python;
};
auto& all_begun = *new std::array<Begun, 2 * Captures::kMost>;

void say_how_it_began(size_t capture) {
  Begun& begun = all_begun[capture % all_begun.size()];
  if (capture == 0 || begun.capture != capture) return;
  Json full = with(begun.caller, {{"capture", capture}, {"stream", begun.stream}, {"mode", name(begun.mode)}});
  full["python"] = begun.python;
  say_to_blame("begun", std::move(full));
  begun.capture = 0;
}

Json in_full(const FailedCall& call) {
  Json full = with({}, {{"api", call.api},
                        {"code", call.code},
                        {"part", name(call.part)},
                        {"sentence", call.sentence},
                        {"mode", name(call.mode)}});
  if (call.capture != 0) full["capture"] = call.capture;
  if (call.latest) full["latest"] = *call.latest;
  if (call.capturing) full["capturing"] = *call.capturing;
  if (call.in_log) full["in_log"] = true;
  if (call.on_capture) full["on_capture"] = true;
  return full;
}

// What was reported to blame, and what was left out: a poll or a loop may fail or launch endlessly. Parts of a capture
// are counted since the last broken end, refused calls since the start.
struct Told {
  pid_t process = 0;
  std::array<size_t, kParts> of_part{};
  size_t failed = 0, silent = 0, others = 0;
  size_t failed_cut = 0, refused_cut = 0, silent_cut = 0;
};

// The same as Told::failed without a lock, and its process.
std::atomic<size_t> failed_so_far{0};
std::atomic<pid_t> failed_by{0};

// This process's own; a forked one starts at zero.
Told& told_here() {
  static Told told;
  if (told.process != getpid()) {
    told = {};
    told.process = getpid();
  }
  return told;
}

// The last call is unknown, so the number is written whenever it has doubled.
void leave_out(const char* what, size_t& number) {
  ++number;
  if ((number & (number - 1)) == 0) say_to_blame("cut", {{"what", what}, {"number", number}});
}

// Each part has its own limit, so that neither victims nor refused calls displace a culprit.
void tell_blame(const FailedCall& call) {
  constexpr size_t kMost = 64;           // Calls of a part.
  constexpr size_t kMostWithPython = 4;  // Of these, with Python frames, which may take a second.
  Told& told = told_here();
  const auto of = [&](Part part) -> size_t& { return told.of_part[static_cast<size_t>(part)]; };
  size_t number = 0, unreported = 0;
  if (call.part == Part::Ended || call.part == Part::EndedBy) {
    for (const Part part : {Part::Suspect, Part::Possible, Part::Victim}) {
      unreported += of(part) - std::min(of(part), kMost);
      of(part) = 0;
    }
  } else {
    number = ++of(call.part);
  }
  const bool is_refused = call.part == Part::Refused, is_too_much = number > kMost && !call.accused;
  if (is_too_much && !is_refused) return;  // Their number is written at the end of the capture.
  if (is_too_much || told.failed == kMostCalls) {
    if (is_refused) {
      leave_out("refused", told.refused_cut);
    } else {
      leave_out("failed", told.failed_cut);
    }
    return;
  }
  failed_so_far = ++told.failed;
  failed_by = told.process;
  say_how_it_began(call.capture);
  Json full = in_full(call);
  if (unreported != 0) full["unreported"] = unreported;
  // A victim's frames are left out, unless there is no culprit and it is one of the first.
  const bool is_victim = call.part == Part::Victim || call.part == Part::Ended;
  if (call.accused || (!is_victim && number <= kMostWithPython)) full["python"] = python::frames_of_threads();
  say_to_blame("failed", std::move(full));
}

Json in_full(const std::vector<python::Frame>& frames) {
  Json all = Json::array();
  for (const python::Frame& frame : frames) {
    all.push_back({{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
  }
  return all;
}

// The calling thread's frames.
std::vector<std::string> own_python_frames() {
  std::vector<std::string> frames;
  for (const python::Thread& thread : python::read_threads(python::frames_of_threads(), pthread_self())) {
    if (thread.handle != pthread_self()) continue;
    for (const python::Frame& frame : thread.frames) frames.push_back(python::text(frame));
  }
  return frames;
}

// Why --deep is not possible; empty if it is, or is not requested.
std::string why_not_deep;

// Returns why it stays off, or nothing.
std::string start(std::string& way) {
  // Without a driver, some releases of CUPTI recurse endlessly in the first call.
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) return "the process has no CUDA driver loaded";
  void* warm[4];
  backtrace(warm, 4);  // The first call loads the unwinder, which must not happen inside a driver call.
  const char* chosen = std::getenv("RECAPTURE_RECORDER");
  const std::string_view wanted = chosen ? chosen : "";
  const bool always = wanted == "always" || wanted == "aloof";
  if (wanted != "aloof") {
    python::listen(for_blame());
    pthread_atfork(nullptr, nullptr, python::forked);
  }
  if (for_blame()) follow_terminate();
  std::string why_not;
  const bool deep = std::getenv("RECAPTURE_DEEP") != nullptr && for_blame();
  if (wanted != "cupti" && !always) {
    way = "the driver's log";
    why_not = hear_log();
    if (deep && why_not.empty()) why_not_deep = hear_cupti({false, false, true, true});
    if (why_not.empty() || wanted == "log") return why_not;
  }
  way = "CUPTI";
  if (always) hear_log_beside();  // Without a log, only the driver's message is missing.
  std::string neither = hear_cupti({always, true, deep, for_blame()});
  if (deep) why_not_deep = neither;
  if (!neither.empty() && !why_not.empty()) return why_not + ", and " + neither;
  return neither;
}

void start_once() {
  static std::atomic<bool> called{false};
  if (called.exchange(true)) return;
  // Not InitializeInjection's address: LibTorch exports a symbol of that name, which would be found.
  own_begin = reinterpret_cast<const void*>(place_of(reinterpret_cast<const void*>(&python::forked)).begin);
  if (const char* number = std::getenv(kEventsVariable)) events = std::atoi(number);
  blame_path = path_in("RECAPTURE_BLAME");
  log_path = path_in("RECAPTURE_RECORDER_LOG");
  std::string way;
  const std::string why_not = start(way);
  report_state(way, why_not);
}

// For a program linked to the driver, without injection. If the driver loads us, we hold the loader's lock here and
// must wait for InitializeInjection.
__attribute__((constructor)) void on_preload() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (!preloaded || std::string_view(preloaded).find("librecorder.so") == std::string_view::npos) return;
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) start_once();
}

}  // namespace

Quiet::Quiet() { is_quiet = true; }
Quiet::~Quiet() { is_quiet = false; }

void report_call(const FailedCall& call) {
  if (is_quiet) return;
  const int before = errno;
  const std::lock_guard<std::mutex> lock(report_mutex);
  if (for_blame()) {
    tell_blame(call);
  } else if (call.accused) {
    Culprit culprit{call.api, call.code, call.capturing, call.mode, {}, own_python_frames()};
    if (call.in_log) culprit.log = call.sentence;
    const std::vector<Frame> frames = frames_above(own_begin, kMostFrames);
    culprit.frames = texts(frames);
    culprit.at = offsets_in(program_path(), frames);
    say(culprit_event(culprit), sentence(culprit));
  }
  errno = before;
}

// Both are called with Python's GIL, for which a thread that is reporting a call may be waiting: so neither waits for
// that thread.
void report_given_up(const GivenUp& capture) {
  constexpr size_t kMost = 256;
  static std::atomic<size_t> told{0};
  if (!for_blame()) return;
  const int before = errno;
  if (const size_t number = ++told; number > kMost) {
    const size_t more = number - kMost;
    if ((more & (more - 1)) == 0) say_to_blame("cut", {{"what", "given up"}, {"number", more}});
    errno = before;
    return;
  }
  Json raised = Json::array();
  for (const Raised& one : capture.raised) {
    raised.push_back({{"type", one.type}, {"text", one.text}, {"frames", in_full(one.frames)}});
  }
  say_to_blame("given up", with({}, {{"at", name(capture.at)},
                                     {"raised", raised},
                                     {"begun", in_full(capture.begun)},
                                     {"failed_before", capture.failed_before}}));
  errno = before;
}

void report_torch(const std::string& version) {
  if (for_blame()) say_to_blame("torch", {{"version", version}});
}

void report_rank(const std::string& rank) {
  if (for_blame()) say_to_blame("rank", {{"rank", rank}});
}

size_t failed_calls() { return failed_by == getpid() ? failed_so_far.load() : 0; }

void report_log(const std::string& api, const std::string& sentence) {
  const int before = errno;
  if (has_events()) say(event_line(key::culprit_log, api + ": " + sentence), "");
  errno = before;
}

void report_call(const SilentCall& call) {
  constexpr size_t kMostOthers = 16;  // With frames of all threads, which may take a second.
  if (!for_blame()) return;
  const int before = errno;
  const std::lock_guard<std::mutex> lock(report_mutex);
  Told& told = told_here();
  if (told.silent == kMostCalls) {
    leave_out("silent", told.silent_cut);
    errno = before;
    return;
  }
  ++told.silent;
  say_how_it_began(call.capture);
  Json full = with({}, {{"api", call.api},
                        {"kernel", call.kernel},
                        {"stream", call.stream},
                        {"capture", call.capture},
                        {"waited", call.waited}});
  full["python"] =
      call.waited && told.others++ < kMostOthers ? python::frames_of_threads() : python::frames_of_this_thread();
  say_to_blame("silent", std::move(full));
  errno = before;
}

void report_begun(size_t capture, uintptr_t stream, CaptureMode mode) {
  if (!for_blame()) return;
  const int before = errno;
  const std::lock_guard<std::mutex> lock(report_mutex);
  all_begun[capture % all_begun.size()] = {capture, stream, mode, {}, python::frames_of_this_thread()};
  errno = before;
}

void report_state(const std::string& way, const std::string& why_not) {
  const int before = errno;
  if (for_blame()) {
    Json heard{{"by", way}, {"why_not", why_not}, {"program", contents_of("/proc/self/cmdline")}};
    if (const std::string torch = loaded("libtorch_cuda.so"); !torch.empty()) heard["torch"] = torch;
    for (const auto& [variable, member] :
         {std::pair("RANK", "rank"), std::pair("LOCAL_RANK", "local_rank"), std::pair("RECAPTURE_WITHIN", "within")}) {
      if (const char* value = std::getenv(variable)) heard[member] = value;
    }
    if (!why_not_deep.empty()) heard["why_not_deep"] = why_not_deep;
    say_to_blame("heard", std::move(heard));
  } else {
    say(event_line(key::recorder, why_not.empty() ? "on" : why_not), why_not.empty() ? "on" : "off, " + why_not);
  }
  errno = before;
}

}  // namespace recapture

// The driver calls it in cuInit. It reports success, because the program continues without the recorder too, or the
// result of the library that was configured before.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  using recapture::Path;
  static std::atomic<bool> called{false};
  static int result = 1;
  if (called.exchange(true)) return result;
  recapture::start_once();
  if (const char* next = std::getenv("RECAPTURE_CHAIN"); next && *next) {
    void* library = dlopen(next, RTLD_NOW | RTLD_LOCAL);
    const auto initialize = library ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
    if (initialize) result = initialize();
  }
  return result;
}
