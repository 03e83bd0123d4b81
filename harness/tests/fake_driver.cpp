// A fake libcuda.so.1 and libnvidia-ml.so.1, with the functions that the canary and the recorder's tests call.
// Variables set its faults: FAKE_INIT is the result of cuInit, FAKE_GPUS the number of GPUs (2), FAKE_BROKEN the one
// that runs no kernel, FAKE_MIG the one with MIG, FAKE_UNLIKE the one of another model, FAKE_OTHERS the number of
// processes that compute on each, FAKE_LOADS a library that another thread loads while a call fails.
//
// It has captures, the driver's log of failed calls, and, if it is also loaded as libcupti.so, CUPTI; built with
// FAKE_OLD it is a driver before R575, without the log. FAKE_COST is the additional time of work in nanoseconds if a
// library is injected. With FAKE_LOG_LAST CUPTI reports a call before the log does.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/recorder/cupti_abi.h"

namespace {
int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}
long current = 0;  // The device of the current context, which is its handle less one.
bool is_begun = false;
uint32_t memory = 0;  // The whole device memory.

struct Capture {
  void* stream;
  int mode;
  pid_t thread;
  bool broken, unjoined;
  size_t nodes;
  std::vector<void*> forked = {};  // Streams that wait for an event of it.
};
struct Graph {
  size_t nodes;
};
std::vector<Capture> captures;
std::binary_semaphore held{0};
std::recursive_mutex mutex;  // Held while the log calls back, as the real one may be.

constexpr const char* kCalls[] = {
    "INVALID",         "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuStreamSynchronize", "cuMemAlloc_v2",
    "cuEventQuery",    "cuMemcpyBatchAsync",      "cuLaunchKernel",     "cuLaunchKernelEx",    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async", "cuGraphLaunch",           "cuStreamWaitEvent"};
recapture::cupti::Callback subscriber = nullptr;
bool enabled[std::size(kCalls)] = {};

#ifndef FAKE_OLD
using LogCallback = void (*)(void*, int, char*, size_t);
std::vector<std::pair<LogCallback, void*> > listeners;

const char* error_name(int code) {
  switch (code) {
    case 201:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case 401:
      return "CUDA_ERROR_ILLEGAL_STATE";
    case 900:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case 901:
      return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case 903:
      return "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    case 904:
      return "CUDA_ERROR_STREAM_CAPTURE_UNJOINED";
    case 906:
      return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case 908:
      return "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    default:
      return "CUDA_ERROR_UNKNOWN";
  }
}

std::thread loader;  // Loads a library that calls the driver from its constructor,
bool loads = false;
std::binary_semaphore loading{0};  // and is doing so now.

void log(const std::string& text) {
  if (const char* library = std::getenv("FAKE_LOADS"); library != nullptr && !std::exchange(loads, true)) {
    loader = std::thread([library] { dlopen(library, RTLD_NOW); });
    loading.acquire();
  }
  std::string line = text;
  for (const auto& [callback, own] : listeners) callback(own, 0, line.data(), line.size());
}
#endif

// The end of every call below.
int end(const char* api, int code, const char* sentence = nullptr, const void* parameters = nullptr,
        const char* kernel = nullptr) {
#ifdef FAKE_OLD
  (void)sentence;
#else
  const auto tell_log = [&] {
    if (code != 0 && sentence != nullptr) log(sentence);
    if (code != 0) log("Returning " + std::to_string(code) + " (" + error_name(code) + ") from " + api);
  };
  const bool log_last = std::getenv("FAKE_LOG_LAST") != nullptr;
  if (!log_last) tell_log();
#endif
  for (uint32_t id = 1; subscriber != nullptr && id < std::size(kCalls); ++id) {
    if (!enabled[id] || std::strcmp(kCalls[id], api) != 0) continue;
    recapture::cupti::CallbackData data{};
    data.site = 1;
    data.function = api;
    data.parameters = parameters;
    data.result = &code;
    data.kernel = kernel;
    subscriber(nullptr, recapture::cupti::kDriverApi, id, &data);
  }
#ifndef FAKE_OLD
  if (log_last) tell_log();
#endif
  return code;
}

Capture* capture_of(void* stream) {
  for (Capture& c : captures) {
    if (c.stream == stream || std::find(c.forked.begin(), c.forked.end(), stream) != c.forked.end()) return &c;
  }
  return nullptr;
}

// Work on a stream: in its capture's graph, or at once.
int work(const char* api, void* stream, const void* parameters, const char* kernel = nullptr) {
  static const int more = std::getenv("CUDA_INJECTION64_PATH") == nullptr ? 0 : number("FAKE_COST", 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(more);
  while (std::chrono::steady_clock::now() < until) {
  }
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Capture* capture = capture_of(stream);
  if (capture != nullptr) ++capture->nodes;
  return end(api, capture != nullptr && capture->broken ? 901 : 0, nullptr, parameters, kernel);
}

// The effect of a call on captures that forbid it.
int unsafe(const char* api) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  for (Capture& c : captures) {
    const bool own = c.thread == gettid();
    if (c.mode == 2 || (c.mode == 1 && !own)) continue;
    c.broken = true;
    return end(api, 900,
               own ? "API call conflicts with a stream capture sequence initiated from the calling thread"
                   : "API call conflicts with a stream capture sequence initiated from another thread");
  }
  return end(api, 0);
}
}  // namespace

extern "C" {
int cuInit(unsigned) {
  if (const char* path = std::getenv("CUDA_INJECTION64_PATH")) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    auto* initialize = library ? reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection")) : nullptr;
    if (initialize != nullptr) initialize();
  }
  is_begun = true;
  return number("FAKE_INIT", 0);
}
int cuCtxGetCurrent(void** context) { return *context = &memory, is_begun ? 0 : 3; }

int cuStreamCreate(void** stream, unsigned) { return *stream = std::malloc(1), 0; }
int cuStreamBeginCapture_v2(void* stream, int mode) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const recapture::cupti::BeginCapture parameters{stream, mode};
  if (stream == nullptr) return end("cuStreamBeginCapture_v2", 900, nullptr, &parameters);
  if (capture_of(stream) != nullptr) return end("cuStreamBeginCapture_v2", 401, nullptr, &parameters);
  captures.push_back({stream, mode, gettid(), false, false, 0, {}});
  return end("cuStreamBeginCapture_v2", 0, nullptr, &parameters);
}
int cuStreamEndCapture(void* stream, void** graph) {
#ifndef FAKE_OLD
  if (loader.joinable()) loader.join();
#endif
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Capture* capture = capture_of(stream);
  const recapture::cupti::EndCapture parameters{stream, graph};
  if (capture == nullptr) return end("cuStreamEndCapture", 401, nullptr, &parameters);
  if (capture->stream != stream) {  // A stream that only takes part.
    capture->broken = true;
    return end("cuStreamEndCapture", 903, nullptr, &parameters);
  }
  const int code = capture->broken ? 901 : capture->unjoined ? 904 : capture->thread != gettid() ? 908 : 0;
  *graph = code == 0 ? new Graph{capture->nodes} : nullptr;
  captures.erase(captures.begin() + (capture - captures.data()));
  return end("cuStreamEndCapture", code, nullptr, &parameters);
}
int cuStreamIsCapturing(void* stream, int* status) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  *status = stream != nullptr && capture_of(stream) != nullptr ? 1 : 0;
  return stream != nullptr ? 0 : end("cuStreamIsCapturing", captures.empty() ? 0 : 906);
}
int cuGraphGetNodes(void* graph, void**, size_t* nodes) { return *nodes = static_cast<Graph*>(graph)->nodes, 0; }
int cuGraphInstantiateWithFlags(void** exec, void* graph, uint64_t) {
  return *exec = graph, unsafe("cuGraphInstantiateWithFlags");
}
int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
int cuGraphLaunch(void* exec, void* stream) {
  const struct { void *exec, *stream; } parameters{exec, stream};
  return work("cuGraphLaunch", stream, &parameters);
}
int cuMemsetD8Async(uint64_t where, unsigned char what, size_t size, void* stream) {
  const struct {
    uint64_t where;
    unsigned char what;
    size_t size;
    void* stream;
  } parameters{where, what, size, stream};
  return work("cuMemsetD8Async", stream, &parameters);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void* stream) {
  const struct {
    uint64_t to, from;
    size_t size;
    void* stream;
  } parameters{to, from, size, stream};
  return work("cuMemcpyDtoDAsync_v2", stream, &parameters);
}
int cuLaunchKernelEx(const void* config, void* function, void**, void**) {
  const struct { const void *config, *function; } parameters{config, function};
  return work("cuLaunchKernelEx", static_cast<const recapture::cupti::LaunchConfig*>(config)->stream, &parameters,
              "_Z3mulPf");
}
int cuMemFree_v2(uint64_t) { return unsafe("cuMemFree_v2"); }
int cuMemHostAlloc(void** where, size_t, unsigned) { return *where = &memory, unsafe("cuMemHostAlloc"); }
int cuMemFreeHost(void*) { return unsafe("cuMemFreeHost"); }
int cuMemHostRegister_v2(void*, size_t, unsigned) { return unsafe("cuMemHostRegister_v2"); }
int cuEventCreate(void** event, unsigned) { return *event = &memory, 0; }
int cuEventSynchronize(void*) { return unsafe("cuEventSynchronize"); }
int cuStreamQuery(void*) { return unsafe("cuStreamQuery"); }
int cuStreamWaitEvent(void* stream, void* event, unsigned) {  // There is one event; 1 is one of another capture.
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (reinterpret_cast<uintptr_t>(event) == 1) {
    if (Capture* capture = capture_of(stream)) capture->broken = true;
    return end("cuStreamWaitEvent", 1, nullptr, &stream);
  }
  if (stream == nullptr && !captures.empty()) {  // The default stream.
    for (Capture& c : captures) c.broken = true;
    return end("cuStreamWaitEvent", 906, nullptr, &stream);
  }
  for (Capture& c : captures) {
    if (c.unjoined) c.forked.push_back(stream);
  }
  return 0;
}
int cuGraphExecDestroy(void*) { return unsafe("cuGraphExecDestroy"); }
int cuStreamSynchronize(void* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  Capture* capture = capture_of(stream);
  if (capture == nullptr) return unsafe("cuStreamSynchronize");
  return end("cuStreamSynchronize", std::exchange(capture->broken, true) ? 901 : 900, nullptr, &stream);
}
int cuCtxSynchronize() {  // Breaks captures, but logs nothing.
  for (Capture& c : captures) c.broken = true;
  return captures.empty() ? 0 : 900;
}
int cuCtxSynchronize_v2() { return unsafe("cuCtxSynchronize_v2"); }
int cuMemcpyBatchAsync() { return end("cuMemcpyBatchAsync", captures.empty() ? 0 : 900); }
int cuEventQuery(void*) { return unsafe("cuEventQuery"); }
int fakeHolding() {  // Waits for the driver inside a call, with the GIL if called so.
  held.release();
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return 0;
}
int fakeFailingWhileHeld() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  held.acquire();
  return cuEventQuery(nullptr);
}
int fakeBackward() {  // Like autograd: on a thread that has never run Python.
  std::thread([] { cuEventQuery(nullptr); }).join();
  return 0;
}
int cuEventRecord(void*, void* stream) {  // Forks work that is never joined.
  if (Capture* capture = capture_of(stream)) capture->unjoined = true;
  return 0;
}
int cuCtxGetDevice(int*) { return end("cuCtxGetDevice", 201); }

int cuptiSubscribe(void** own, recapture::cupti::Callback callback, void*) {
  if (number("FAKE_PROFILER", 0) != 0) return 39;
  return *own = &subscriber, subscriber = callback, 0;
}
int cuptiEnableDomain(uint32_t enable, void*, int) {
  for (bool& one : enabled) one = enable != 0;
  return 0;
}
int cuptiEnableCallback(uint32_t enable, void*, int, uint32_t id) { return enabled[id] = enable != 0, 0; }
int cuptiGetCallbackName(int, uint32_t id, const char** name) {
  return id < std::size(kCalls) ? (*name = kCalls[id], 0) : 1;
}

#ifndef FAKE_OLD
int fakeLoading() {
  loading.release();
  return cuEventQuery(nullptr);
}
int cuLogsRegisterCallback(LogCallback callback, void* own, void** handle) {
  listeners.emplace_back(callback, own);
  return *handle = &listeners, 0;
}
#endif

int cuDeviceGetCount(int* count) { return *count = number("FAKE_GPUS", 2), 0; }
int cuDeviceGet(int* device, int i) { return *device = i, 0; }
int cuDeviceGetName(char* name, int size, int device) {
  const bool is_unlike = device == number("FAKE_UNLIKE", -1);
  return std::snprintf(name, static_cast<size_t>(size), "%s", is_unlike ? "Other" : "Fake"), 0;
}
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = number("FAKE_CAPABILITY", 90);
  *value = attribute == 75   ? capability / 10
           : attribute == 76 ? capability % 10
           : attribute == 20 ? number("FAKE_COMPUTE_MODE", 0)
                             : 0;
  return 0;
}
int cuDeviceGetUuid_v2(char* uuid, int device) { return std::memset(uuid, device, 16), 0; }
int cuDeviceGetPCIBusId(char* bus, int size, int device) {
  return std::snprintf(bus, static_cast<size_t>(size), "%d", device), 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = reinterpret_cast<void*>(static_cast<long>(device) + 1), 0;
}
int cuCtxSetCurrent(void* context) { return current = reinterpret_cast<long>(context) - 1, 0; }
// PTX for a newer architecture than the GPU's has no code for it.
int cuModuleLoadData(void** module, const void* image) {
  const char* target = std::strstr(static_cast<const char*>(image), ".target sm_");
  if (target != nullptr && std::atoi(target + 11) > number("FAKE_CAPABILITY", 90)) return 209;
  return *module = nullptr, 0;
}
int cuModuleGetFunction(void** function, void*, const char*) { return *function = nullptr, 0; }
int cuMemAlloc_v2(uint64_t* where, size_t) {
  *where = reinterpret_cast<uint64_t>(&memory);
  return unsafe("cuMemAlloc_v2");
}
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                   void** arguments, void**) {
  if (current == number("FAKE_BROKEN", -1)) return 700;
  if (arguments != nullptr) **static_cast<uint32_t**>(arguments[0]) = *static_cast<uint32_t*>(arguments[1]);
  const recapture::cupti::LaunchKernel parameters{function, {}, stream};
  return work("cuLaunchKernel", stream, &parameters, "_Z3mulPf");
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size) {
  return std::memcpy(to, reinterpret_cast<void*>(from), size), 0;
}

int nvmlInit_v2() { return number("FAKE_NVML", 0); }
int nvmlSystemGetDriverVersion(char* version, unsigned size) { return std::snprintf(version, size, "580.1"), 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return *device = reinterpret_cast<void*>(static_cast<long>(std::atoi(bus)) + 1), 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* then) {
  *now = *then = reinterpret_cast<long>(device) - 1 == number("FAKE_MIG", -1) ? 1 : 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = static_cast<unsigned>(number("FAKE_OTHERS", 0));
  return *count == 0 ? 0 : 7;  // No room for them.
}
}
