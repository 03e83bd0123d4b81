// What each potentially unsafe CUDA call does beside an open capture, by capture mode and by calling thread.
//
// CUDA knows three kinds of calls. A potentially unsafe one is refused (900) to every thread during a global capture,
// to the capturing thread alone during a thread-local one, and to nobody during a relaxed one. A call that queries or
// waits for the capturing stream, or for something that contains it such as the device, is always refused. All others
// are allowed. Each cell of the table is a capture of its own on a new non-blocking stream with one node in it, and all
// that the call needs is made and finished beforehand. The other thread is alive and has its context before the capture
// begins.
//
// No fix is here: the calls have cases of their own, with their remedies.
//
// Alone:  g++ cases/threads/unsafe_calls_by_mode.cpp $(tools/libtorch --flags) -o unsafe_calls_by_mode

#include <functional>
#include <future>
#include <thread>

#include "fixtures/cuda/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "CUDA refuses potentially unsafe calls beside a capture to the threads that its mode covers",
    .sources = {{"capture failures", "Memory Allocation and Deallocation"},
                {"capture failures", "Background Thread Queries"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "global: prohibited to every thread; thread-local: to the capturing thread; relaxed: not prohibited",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads", "raw CUDA calls", "events", "pinned memory", "host reads", "graph updates"},
    .features = {"threads"},
};

namespace {

constexpr size_t kBytes = 1 << 20;

// All that one cell needs, finished before its capture begins. Left behind afterwards: the process ends soon.
struct Resources {
  cudaStream_t capturing = nullptr, idle = nullptr;
  cudaEvent_t event = nullptr;
  void *node = nullptr, *device = nullptr, *host = nullptr;  // `device` and `host` may be freed.
  cudaError_t make() {
    for (const cudaError_t error :
         {cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking),
          cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking), cudaEventCreate(&event), cudaMalloc(&node, kBytes),
          cudaMalloc(&device, kBytes), cudaHostAlloc(&host, kBytes, cudaHostAllocDefault), cudaEventRecord(event, idle),
          cudaDeviceSynchronize()}) {
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }
};

using Call = std::function<cudaError_t(const Resources&)>;

// The call's result in each cell, as one line; the results of ending the captures are recorded beside it.
std::string row(const std::string& name, const Call& call) {
  const std::pair<const char*, cudaStreamCaptureMode> modes[] = {{"global", cudaStreamCaptureModeGlobal},
                                                                 {"thread-local", cudaStreamCaptureModeThreadLocal},
                                                                 {"relaxed", cudaStreamCaptureModeRelaxed}};
  std::string calls, ends;
  for (const auto& [mode_name, mode] : modes) {
    for (const bool self : {true, false}) {
      Resources r;
      EXPECT_EQ(r.make(), cudaSuccess);
      cudaError_t result = cudaSuccess;
      std::promise<void> ready, opened;
      std::thread other([&] {
        cudaFree(nullptr);  // Binds the context.
        ready.set_value();
        opened.get_future().wait();
        if (!self) TRIGGER(result = call(r));
      });
      ready.get_future().wait();
      EXPECT_EQ(cudaStreamBeginCapture(r.capturing, mode), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(r.node, 0, kBytes, r.capturing), cudaSuccess);
      if (self) TRIGGER(result = call(r));
      opened.set_value();
      other.join();
      cudaGraph_t captured = nullptr;
      const cudaError_t end = cudaStreamEndCapture(r.capturing, &captured);
      cudaGetLastError();
      const std::string cell = (calls.empty() ? "" : " ") + std::string(mode_name) + (self ? "/self=" : "/other=");
      calls += cell + (result == cudaSuccess ? "ok" : std::to_string(result));
      ends += cell + (end == cudaSuccess ? "ok" : std::to_string(end));
    }
  }
  record("table." + name, calls);
  record("table." + name + ".end", ends);
  return calls;
}

const std::string kUnsafe =
    "global/self=900 global/other=900 thread-local/self=900 thread-local/other=ok relaxed/self=ok relaxed/other=ok";
const std::string kRefused =
    "global/self=900 global/other=900 thread-local/self=900 thread-local/other=900 relaxed/self=900 relaxed/other=900";
const std::string kAllowed =
    "global/self=ok global/other=ok thread-local/self=ok thread-local/other=ok relaxed/self=ok relaxed/other=ok";

}  // namespace

class UnsafeCallsByMode : public GpuTest {};

TEST_F(UnsafeCallsByMode, ControlNoCall) {
  EXPECT_EQ(row("none", [](const Resources&) { return cudaSuccess; }), kAllowed);
}

TEST_F(UnsafeCallsByMode, ControlEventCreate) {
  EXPECT_EQ(row("cudaEventCreate",
                [](const Resources&) {
                  cudaEvent_t event;
                  return cudaEventCreate(&event);
                }),
            kAllowed);
}

TEST_F(UnsafeCallsByMode, ControlStreamCreate) {
  EXPECT_EQ(row("cudaStreamCreate",
                [](const Resources&) {
                  cudaStream_t stream;
                  return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
                }),
            kAllowed);
}

// Work on the legacy stream, which waits only for blocking streams.
TEST_F(UnsafeCallsByMode, ControlLegacyStream) {
  EXPECT_EQ(row("cudaMemsetAsync.legacy",
                [](const Resources& r) { return cudaMemsetAsync(r.device, 0, kBytes, cudaStreamLegacy); }),
            kAllowed);
}

// The synchronous calls wait for the legacy stream, and for nothing that captures.
TEST_F(UnsafeCallsByMode, ControlMemset) {
  EXPECT_EQ(row("cudaMemset", [](const Resources& r) { return cudaMemset(r.device, 0, kBytes); }), kAllowed);
}

TEST_F(UnsafeCallsByMode, ControlMemcpy) {
  EXPECT_EQ(row("cudaMemcpy",
                [](const Resources& r) { return cudaMemcpy(r.device, r.host, kBytes, cudaMemcpyHostToDevice); }),
            kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesMalloc) {
  void* memory = nullptr;
  REPRODUCES(row("cudaMalloc", [&](const Resources&) { return cudaMalloc(&memory, kBytes); }), kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesFree) {
  REPRODUCES(row("cudaFree", [](const Resources& r) { return cudaFree(r.device); }), kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesHostAlloc) {
  void* memory = nullptr;
  REPRODUCES(
      row("cudaHostAlloc", [&](const Resources&) { return cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault); }),
      kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesFreeHost) {
  REPRODUCES(row("cudaFreeHost", [](const Resources& r) { return cudaFreeHost(r.host); }), kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesEventQuery) {
  REPRODUCES(row("cudaEventQuery", [](const Resources& r) { return cudaEventQuery(r.event); }), kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesStreamQuery) {
  REPRODUCES(row("cudaStreamQuery", [](const Resources& r) { return cudaStreamQuery(r.idle); }), kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesEventSynchronize) {
  REPRODUCES(row("cudaEventSynchronize", [](const Resources& r) { return cudaEventSynchronize(r.event); }), kUnsafe,
             kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesStreamSynchronize) {
  REPRODUCES(row("cudaStreamSynchronize", [](const Resources& r) { return cudaStreamSynchronize(r.idle); }), kUnsafe,
             kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesGraphInstantiate) {
  cudaGraph_t other_graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&other_graph, 0));
  REPRODUCES(row("cudaGraphInstantiate",
                 [&](const Resources&) {
                   cudaGraphExec_t exec;
                   return cudaGraphInstantiateWithFlags(&exec, other_graph, 0);
                 }),
             kUnsafe, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesStreamQueryOfTheCapturingStream) {
  REPRODUCES(row("cudaStreamQuery.capturing", [](const Resources& r) { return cudaStreamQuery(r.capturing); }),
             kRefused, kAllowed);
}

TEST_F(UnsafeCallsByMode, ReproducesDeviceSynchronize) {
  REPRODUCES(row("cudaDeviceSynchronize", [](const Resources&) { return cudaDeviceSynchronize(); }), kRefused,
             kAllowed);
}
