// A cudaFree that is not LibTorch's own invalidates the capture that it happens in.
//
// Freeing waits for the device, so CUDA refuses it to the capturing thread in global and in thread-local mode.
// LibTorch's allocator does not call cudaFree then: what a capture gives back stays in the pool until no capture is
// under way.
//
// Alone:  g++ cases/memory/raw_free_in_capture.cpp $(tools/libtorch --flags) -o raw_free_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A bare cudaFree during a capture in global or thread-local mode invalidates it",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"capture failures", "Memory Allocation and Deallocation"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "extensions"},
    .features = {"raw CUDA calls"},
    .fixes = {{"FixFreeAfterCapture", "Postpone your own cudaFree() calls until the capture has ended."}},
};

class RawFreeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    ASSERT_CUDA(cudaMalloc(&memory, 1 << 20));
  }
  at::Tensor data;
  void* memory = nullptr;
};

TEST_F(RawFreeInCapture, Control) {
  ASSERT_CUDA(cudaFree(memory));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 6));
}

TEST_F(RawFreeInCapture, Reproduces) {
  Failure first;
  graph->capture_begin();
  data.mul_(2);
  TRIGGER(first = failure_of_code(cudaFree(memory)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RawFreeInCapture, ReproducesInThreadLocalMode) {
  Failure first;
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  data.mul_(2);
  TRIGGER(first = failure_of_code(cudaFree(memory)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RawFreeInCapture, FixFreeAfterCapture) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(ASSERT_CUDA(cudaFree(memory)));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  REMEDY(ASSERT_CUDA(cudaFree(memory)));
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}
