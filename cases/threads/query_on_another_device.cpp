// A global capture on one GPU should also forbid calls of another thread that concern only another GPU.
//
// The document says that in global mode all threads enter the capture mode "for that device". CUDA's documentation of
// the mode names no device. Another thread, whose current device is the second GPU, queries an event of that GPU, and
// the query is expected to be refused as it would be on the first.
//
// Alone:  g++ cases/threads/query_on_another_device.cpp $(tools/libtorch --flags) -o query_on_another_device

#include <future>
#include <string>
#include <thread>

#include "fixtures/cuda/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A global capture on one GPU is invalidated by a query of an event of another GPU",
    .sources = {{"capture failures", "Background Thread Queries"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "all threads in your process enter capture mode for that device",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "events", "raw CUDA calls"},
    .features = {"threads", "events"},
    .needs = "ranks",
    .fixes = {{"FixThreadLocalMode",
               "Capture with capture_error_mode='thread_local' if threads for other GPUs may query events meanwhile."}},
    .connections = 8,
};

class QueryOnAnotherDevice : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "needs 2 GPUs, has " << count;
    ASSERT_CUDA(cudaMalloc(&memory, 1));
  }

  // A capture of one node on the first GPU, while a thread on the second one queries an event there.
  std::string queried_beside(cudaStreamCaptureMode mode, bool asks) {
    cudaError_t made = cudaSuccess, asked = cudaSuccess;
    std::promise<void> ready, opened;
    std::thread other([&, capturing = opened.get_future()]() mutable {
      cudaEvent_t event = nullptr;
      for (const cudaError_t error :
           {cudaSetDevice(1), cudaEventCreate(&event), cudaEventRecord(event, nullptr), cudaDeviceSynchronize()}) {
        if (made == cudaSuccess) made = error;
      }
      ready.set_value();
      capturing.wait();
      if (asks) asked = cudaEventQuery(event);
    });
    ready.get_future().wait();
    EXPECT_EQ(made, cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory, 0, 1, stream), cudaSuccess);
    opened.set_value();
    other.join();
    const std::string status = capture_status(stream);
    cudaGraph_t graph_of_capture = nullptr;
    const cudaError_t end = cudaStreamEndCapture(stream, &graph_of_capture);
    if (graph_of_capture != nullptr) cudaGraphDestroy(graph_of_capture);
    (void)cudaGetLastError();
    return seen(failure_of_code(asked), status, failure_of_code(end));
  }

  void* memory = nullptr;
};

constexpr char kHealthy[] = "ok > active > ok";

TEST_F(QueryOnAnotherDevice, Control) { EXPECT_EQ(queried_beside(cudaStreamCaptureModeGlobal, false), kHealthy); }

TEST_F(QueryOnAnotherDevice, Reproduces) {
  bool asks = false;
  TRIGGER(asks = true);
  RAISED_BY("cuEventQuery");
  REPRODUCES(queried_beside(cudaStreamCaptureModeGlobal, asks), "900 > invalidated > 901", kHealthy);
}

TEST_F(QueryOnAnotherDevice, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(queried_beside(mode, true), kHealthy);
}
