// The recorder's source of the driver's log: every failed call, without cost while no call fails. The driver calls back
// inside the call, on its thread.
#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/recorder/driver_log.h"
#include "harness/recorder/report.h"

namespace recapture {
namespace {

driver_log::Accuser accuser;
std::mutex mutex;  // Over it, and so that calls are reported as they are accused. No thread that holds it waits for the
                   // driver.

// The sentence before its call's line. No destructor: the thread may be ending.
thread_local std::array<char, 256> sentence;
thread_local size_t sentence_size = 0;

// The call of this thread's latest line, for heard_in_log(); and the call that is waited for.
struct LoggedCall {
  std::array<char, 64> api;
  size_t size = 0;
  int code = 0;

  void set(std::string_view name, int its_code) {
    size = name.copy(api.data(), api.size());
    code = its_code;
  }
  bool is(std::string_view name, int its_code) const {
    return size > 0 && std::string_view(api.data(), size) == name.substr(0, api.size()) && code == its_code;
  }
};
thread_local LoggedCall heard, awaited;
thread_local size_t heard_sentence_size = 0;
bool is_beside = false;

void hear_line(const driver_log::Line& line) {
  if (line.api.empty()) {
    sentence_size = line.sentence.copy(sentence.data(), sentence.size());
    return;
  }
  if (is_beside) {
    const size_t size = std::exchange(sentence_size, 0);
    if (std::exchange(awaited, {}).is(line.api, line.code)) {
      report_log(std::string(line.api), std::string(sentence.data(), size));
    } else {
      heard.set(line.api, line.code);
      heard_sentence_size = size;
    }
    return;
  }
  FailedCall call;
  call.in_log = true;
  call.sentence.assign(sentence.data(), std::exchange(sentence_size, 0));
  call.part = part_of(line.api, line.code);
  if (call.part == Part::None) return;
  call.api = line.api;
  call.code = line.code;
  if (call.sentence.find("initiated from another thread") != call.sentence.npos) call.capturing = false;
  if (call.sentence.find("initiated from the calling thread") != call.sentence.npos) call.capturing = true;
  if (const auto known = standing(kind_of_call(line.api) == CallKind::End)) {
    call.capturing = known->capturing;
    call.mode = known->mode;
    call.capture = known->capture;
    call.latest = known->latest;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  call.accused = accuser.names(call.part);
  report_call(call);
}

void on_line(void*, int level, char* message, size_t length) {
  if (level != driver_log::kError || !message) return;
  const int before = errno;
  try {
    hear_line(driver_log::read_line({message, length}));
  } catch (...) {  // Out of memory: nothing to report.
  }
  errno = before;
}

}  // namespace

std::string hear_log() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto start = driver ? reinterpret_cast<driver_log::Register>(dlsym(driver, "cuLogsRegisterCallback")) : nullptr;
  if (!start) return "this driver has no log that can be heard (since R575)";
  void* handle = nullptr;
  const int result = start(on_line, nullptr, &handle);
  return result == 0 ? "" : "cuLogsRegisterCallback returned " + std::to_string(result);
}

std::string hear_log_beside() {
  is_beside = true;
  return hear_log();
}

std::optional<std::string> heard_in_log(std::string_view api, int code) {
  if (std::exchange(heard, {}).is(api, code)) return std::string(sentence.data(), heard_sentence_size);
  if (is_beside) awaited.set(api, code);
  return std::nullopt;
}

}  // namespace recapture
