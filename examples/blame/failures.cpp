// Failing captures in C++ for tools/blame, each in its own function: `failures NAME` runs one, `failures --list` prints
// for each which driver call returns which error. The line of the call has a mark with the name. It opens the driver
// itself, so it builds without CUDA. Exits with 3, or with 77 without a GPU.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace {

using Pointer = unsigned long long;  // CUdeviceptr.
using Handle = void*;

template <class Function>
Function* find(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function*>(driver == nullptr ? nullptr : dlsym(driver, name));
}

#define CALL(name, symbol, ...) auto* const name = find<int(__VA_ARGS__)>(symbol)
CALL(cuInit, "cuInit", unsigned);
CALL(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Handle*, int);
CALL(cuCtxSetCurrent, "cuCtxSetCurrent", Handle);
CALL(cuCtxSynchronize, "cuCtxSynchronize");
CALL(cuMemAlloc, "cuMemAlloc_v2", Pointer*, size_t);
CALL(cuMemFree, "cuMemFree_v2", Pointer);
CALL(cuMemHostAlloc, "cuMemHostAlloc", Handle*, size_t, unsigned);
CALL(cuMemFreeHost, "cuMemFreeHost", Handle);
CALL(cuMemHostRegister, "cuMemHostRegister_v2", Handle, size_t, unsigned);
CALL(cuMemcpyDtoH, "cuMemcpyDtoH_v2", Handle, Pointer, size_t);
CALL(cuMemcpyBatchAsync, "cuMemcpyBatchAsync", Pointer*, Pointer*, size_t*, size_t, void*, size_t*, size_t, size_t*,
     Handle);
CALL(cuMemsetD8Async, "cuMemsetD8Async", Pointer, unsigned char, size_t, Handle);
CALL(cuEventCreate, "cuEventCreate", Handle*, unsigned);
CALL(cuEventRecord, "cuEventRecord", Handle, Handle);
CALL(cuEventQuery, "cuEventQuery", Handle);
CALL(cuEventSynchronize, "cuEventSynchronize", Handle);
CALL(cuStreamCreate, "cuStreamCreate", Handle*, unsigned);
CALL(cuStreamQuery, "cuStreamQuery", Handle);
CALL(cuStreamSynchronize, "cuStreamSynchronize", Handle);
CALL(cuStreamWaitEvent, "cuStreamWaitEvent", Handle, Handle, unsigned);
CALL(cuStreamAddCallback, "cuStreamAddCallback", Handle, void (*)(Handle, int, void*), void*, unsigned);
CALL(cuStreamBeginCapture, "cuStreamBeginCapture_v2", Handle, int);
CALL(cuStreamEndCapture, "cuStreamEndCapture", Handle, Handle*);
CALL(cuGraphInstantiate, "cuGraphInstantiateWithFlags", Handle*, Handle, unsigned long long);
CALL(cuGraphLaunch, "cuGraphLaunch", Handle, Handle);
CALL(cuGraphExecDestroy, "cuGraphExecDestroy", Handle);

constexpr unsigned kNonBlocking = 1;
constexpr int kGlobal = 0, kRelaxed = 2;
constexpr size_t kSize = 4096;

Handle context, stream, other, blocking, event, pinned, graph, exec;
Pointer memory, spare;
char host[kSize];

void in_thread(void (*act)()) {
  std::thread([act] {
    cuCtxSetCurrent(context);
    act();
  }).join();
}

void malloc_in_capture() {
  cuMemAlloc(&memory, kSize);  // CULPRIT malloc
}
void free_in_capture() {
  cuMemFree(spare);  // CULPRIT free
}
void host_alloc() {
  cuMemHostAlloc(&pinned, kSize, 0);  // CULPRIT host_alloc
}
void host_free() {
  cuMemFreeHost(pinned);  // CULPRIT host_free
}
void event_query() {
  cuEventQuery(event);  // CULPRIT event_query
}
void event_synchronize() {
  cuEventSynchronize(event);  // CULPRIT event_synchronize
}
void stream_query() {
  cuStreamQuery(other);  // CULPRIT stream_query
}
void stream_synchronize() {
  cuStreamSynchronize(stream);  // CULPRIT stream_synchronize
}
void context_synchronize() {
  cuCtxSynchronize();  // CULPRIT context_synchronize
}
void stream_callback() {
  constexpr auto kNothing = [](Handle, int, void*) {};
  cuStreamAddCallback(stream, kNothing, nullptr, 0);  // CULPRIT stream_callback
}
void earlier_event() {
  cuStreamWaitEvent(stream, event, 0);  // CULPRIT earlier_event
}
void instantiate() {
  cuGraphInstantiate(&exec, graph, 0);  // CULPRIT instantiate
}
void graph_launch() {
  cuGraphLaunch(exec, stream);  // CULPRIT graph_launch
}
void graph_destroyed() {
  cuGraphExecDestroy(exec);  // CULPRIT graph_destroyed
}
void captured_event() {
  cuEventRecord(event, stream);
  cuEventQuery(event);  // CULPRIT captured_event
}
void blocking_copy() {
  cuMemcpyDtoH(host, memory, kSize);  // CULPRIT blocking_copy
}
void default_stream() {
  cuMemsetD8Async(memory, 0, kSize, nullptr);  // CULPRIT default_stream
}
void malloc_in_thread() {
  in_thread([] {
    cuMemAlloc(&spare, kSize);  // CULPRIT malloc_in_thread
  });
}
void query_in_thread() {
  in_thread([] {
    cuEventQuery(event);  // CULPRIT query_in_thread
  });
}
void register_in_thread() {
  in_thread([] {
    cuMemHostRegister(host, kSize, 0);  // CULPRIT register_in_thread
  });
}
void end_in_thread() {
  in_thread([] {
    cuStreamEndCapture(stream, &graph);  // CULPRIT end_in_thread
  });
}
void exception() {
  throw std::runtime_error("the shape is not static");  // CULPRIT exception
}
void exception_in_thread() {
  in_thread([] {
    throw std::out_of_range("the layer has no such head");  // CULPRIT exception_in_thread
  });
}
void exception_of_no_class() {
  throw 42;  // CULPRIT exception_of_no_class
}
void not_joined() {
  cuEventRecord(event, stream);
  cuStreamWaitEvent(other, event, 0);
  cuMemsetD8Async(memory, 0, kSize, other);
}
void refused_copy() {
  struct {  // CUmemcpyAttributes: in the order of the stream.
    int order = 1, source[2] = {}, destination[2] = {};
    unsigned flags = 0;
  } attributes;
  Pointer to = memory, from = spare;
  size_t size = kSize, first = 0, failed = 0;
  cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, &failed, stream);  // REFUSED refused_copy
}
void silent_memset() {
  cuMemsetD8Async(memory, 0, kSize, other);  // SILENT silent_memset
  cuMemsetD8Async(memory, 0, kSize, stream);
}
// Until the capturing thread waits for this one.
void wait_for_main() {
  for (char state = 0; state != 'S';) {
    std::array<char, 256> path{}, text{};
    std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", getpid());
    std::FILE* file = std::fopen(path.data(), "r");
    if (file == nullptr) return;
    const char* name_end = std::fgets(text.data(), text.size(), file) ? std::strrchr(text.data(), ')') : nullptr;
    state = name_end != nullptr ? name_end[2] : 'S';
    std::fclose(file);
  }
}

void silent_in_thread() {
  in_thread([] {
    wait_for_main();
    cuMemsetD8Async(memory, 0, kSize, other);  // SILENT silent_in_thread
  });
  cuMemsetD8Async(memory, 0, kSize, stream);
}
void work_beside() {  // A detached thread.
  std::atomic<bool> busy{false}, done{false};
  std::thread beside([&] {
    cuCtxSetCurrent(context);
    while (!busy) {
    }
    cuMemsetD8Async(memory, 0, kSize, other);
    done = true;
  });
  busy = true;
  while (!done) {
  }
  beside.join();
  cuMemsetD8Async(memory, 0, kSize, stream);
}
void empty_graph() {}
void nothing() { cuMemsetD8Async(memory, 0, kSize, stream); }

struct Failure {
  const char *name, *header;  // As in the first line of blame's Python programs.
  void (*act)();
  int mode = kGlobal;
  Handle* captured = &stream;
};

constexpr Failure kFailures[] = {
    {"malloc", "api: cuMemAlloc_v2 code: 900 cause: raw_malloc_in_capture", malloc_in_capture},
    {"free", "api: cuMemFree_v2 code: 900 cause: raw_free_in_capture", free_in_capture},
    {"host_alloc", "api: cuMemHostAlloc code: 900 cause: pinned_allocation_in_capture", host_alloc},
    {"host_free", "api: cuMemFreeHost code: 900 cause: pinned_release_in_capture", host_free},
    {"event_query", "api: cuEventQuery code: 900 cause: event_query_in_capture", event_query},
    {"event_synchronize", "api: cuEventSynchronize code: 900 cause: event_synchronize_in_capture", event_synchronize},
    {"stream_query", "api: cuStreamQuery code: 900 cause: stream_query_in_capture", stream_query},
    {"stream_synchronize", "api: cuStreamSynchronize code: 900 cause: stream_synchronize_in_capture",
     stream_synchronize, kRelaxed},
    {"context_synchronize", "api: cuCtxSynchronize code: 900 cause: device_synchronize_in_capture",
     context_synchronize},
    {"stream_callback", "api: cuStreamAddCallback code: 900 cause: callback_in_capture", stream_callback},
    {"earlier_event", "api: cuStreamWaitEvent code: 905 cause: capture_waits_for_earlier_work", earlier_event},
    {"instantiate", "api: cuGraphInstantiate code: 900 cause: graph_used_in_capture", instantiate},
    {"graph_launch", "api: cuGraphLaunch code: 900 cause: graph_used_in_capture", graph_launch},
    {"graph_destroyed", "api: cuGraphExecDestroy code: 900 cause: graph_destroyed_in_capture", graph_destroyed},
    {"captured_event", "api: cuEventQuery code: 907 cause: event_query_in_capture", captured_event, kRelaxed},
    {"blocking_copy", "api: cuMemcpyDtoH_v2 code: 906 cause: cpu_copy_in_capture", blocking_copy, kRelaxed, &blocking},
    {"default_stream", "api: cuMemsetD8Async code: 906 cause: default_stream_work_beside_blocking_capture",
     default_stream, kRelaxed, &blocking},
    {"malloc_in_thread", "api: cuMemAlloc_v2 code: 900 cause: allocation_in_other_thread", malloc_in_thread},
    {"query_in_thread", "api: cuEventQuery code: 900 cause: event_query_in_other_thread", query_in_thread},
    {"register_in_thread", "api: cuMemHostRegister code: 900 cause: host_register_in_other_thread", register_in_thread},
    {"end_in_thread", "api: cuStreamEndCapture code: 908 cause: capture_ended_by_other_thread", end_in_thread},
    {"exception", "api: exception cause: exception_in_capture", exception},
    {"exception_in_thread", "api: exception cause: exception_in_capture", exception_in_thread},
    {"exception_of_no_class", "api: exception cause: exception_in_capture", exception_of_no_class},
    {"not_joined", "api: cuStreamEndCapture code: 904 cause: side_stream_not_joined", not_joined},
    {"refused_copy", "api: none refused: cuMemcpyBatchAsync silent: cuStreamEndCapture", refused_copy},
    {"silent_memset", "api: none silent: cuMemsetD8Async", silent_memset},
    {"silent_in_thread", "api: none silent: cuMemsetD8Async", silent_in_thread},
    {"work_beside", "api: none", work_beside},
    {"empty_graph", "api: none silent: cuStreamEndCapture", empty_graph},
    {"nothing", "api: none", nothing},
};

bool start() {
  if (cuInit == nullptr || cuInit(0) != 0) return false;
  if (cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return false;
  cuStreamCreate(&stream, kNonBlocking);
  cuStreamCreate(&other, kNonBlocking);
  cuStreamCreate(&blocking, 0);
  cuEventCreate(&event, 0);
  cuEventRecord(event, other);
  cuMemAlloc(&memory, kSize);
  cuMemAlloc(&spare, kSize);
  cuMemHostAlloc(&pinned, kSize, 0);
  cuStreamBeginCapture(stream, kGlobal);
  cuMemsetD8Async(memory, 0, kSize, stream);
  cuStreamEndCapture(stream, &graph);
  cuGraphInstantiate(&exec, graph, 0);
  return cuCtxSynchronize() == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  for (const Failure& failure : kFailures) {
    if (std::strcmp(name, "--list") == 0) std::printf("%s %s\n", failure.name, failure.header);
    if (std::strcmp(name, failure.name) != 0) continue;
    if (!start()) return 77;
    cuStreamBeginCapture(*failure.captured, failure.mode);
    failure.act();
    cuStreamEndCapture(*failure.captured, &graph);  // END
    return 3;
  }
  return std::strcmp(name, "--list") == 0 ? 0 : 2;
}
