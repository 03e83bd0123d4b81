// A cudaMalloc that is not LibTorch's own invalidates the capture that it happens in.
//
// Allocating can synchronise the device, so CUDA counts it as potentially unsafe and refuses it to the capturing thread
// in global and in thread-local mode. LibTorch's allocator may do it only because it enters relaxed mode for the call.
//
// Alone:  g++ cases/memory/raw_malloc_in_capture.cpp $(tools/libtorch --flags) -o raw_malloc_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A bare cudaMalloc during a capture in global or thread-local mode invalidates it",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"capture failures", "Memory Allocation and Deallocation"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "extensions"},
    .features = {"raw CUDA calls"},
    .fixes = {{"FixRelaxedGuard",
               "Wrap cudaMalloc() in a c10::cuda::CUDAStreamCaptureModeGuard with cudaStreamCaptureModeRelaxed."},
              {"FixThroughTheCachingAllocator",
               "Allocate with c10::cuda::CUDACachingAllocator::raw_alloc() instead of cudaMalloc()."}},
};

class RawMallocInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
  }
  at::Tensor data;
  void* memory = nullptr;
};

TEST_F(RawMallocInCapture, Control) {
  ASSERT_CUDA(cudaMalloc(&memory, 1 << 20));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 6));
}

TEST_F(RawMallocInCapture, Reproduces) {
  Failure first;
  graph->capture_begin();
  data.mul_(2);
  TRIGGER(first = failure_of_code(cudaMalloc(&memory, 1 << 20)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RawMallocInCapture, ReproducesInThreadLocalMode) {
  Failure first;
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  data.mul_(2);
  TRIGGER(first = failure_of_code(cudaMalloc(&memory, 1 << 20)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RawMallocInCapture, FixRelaxedGuard) {
  graph->capture_begin();
  {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;  // A thread's own, unless it sets another.
    REMEDY(mode = cudaStreamCaptureModeRelaxed);
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    ASSERT_CUDA(cudaMalloc(&memory, 4 * sizeof(float)));
  }
  at::Tensor result = at::from_blob(memory, {4}, data.options());
  result.copy_(data * 2);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}

TEST_F(RawMallocInCapture, FixThroughTheCachingAllocator) {
  graph->capture_begin();
  WITHOUT_REMEDY(ASSERT_CUDA(cudaMalloc(&memory, 4 * sizeof(float))));
  REMEDY(memory = c10::cuda::CUDACachingAllocator::raw_alloc(4 * sizeof(float)));
  at::Tensor result = at::from_blob(memory, {4}, data.options());
  result.copy_(data * 2);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}
