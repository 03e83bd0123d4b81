// A tensor made on a stream that does not capture invalidates the capture of another stream, in the same thread too.
//
// LibTorch enters relaxed mode around cudaMalloc only if the thread's current stream captures. For any other stream it
// calls cudaMalloc bare, which global mode forbids to every thread and thread-local mode to the capturing one. The size
// is fresh, so that the request cannot be served from the cache.
//
// Alone:  g++ cases/memory/allocation_on_uncaptured_stream.cpp $(ci/libtorch --flags) -o allocation_on_uncaptured_stream

#include <optional>
#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A device allocation on a stream that does not capture invalidates a capture",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"PyTorch source", "c10/cuda/CUDACachingAllocator.cpp: cudaMallocMaybeCapturing"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "900 on a cache miss, 901 at the end of the capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .fixes = {{"FixRelaxedMode",
               "Capture with capture_error_mode='relaxed' if tensors have to be allocated on other streams meanwhile."},
              {"FixAllocateBeforeCapture", "Allocate the tensors of other streams before the capture begins."}},
};

namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

}  // namespace

class AllocationOnUncapturedStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    side = c10::cuda::getStreamFromPool();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  void replay_twice(const at::Tensor& result) {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data;
  std::optional<c10::cuda::CUDAStream> side;
};

TEST_F(AllocationOnUncapturedStream, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const at::Tensor other = at::empty({kBytes}, bytes);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 6));
}

TEST_F(AllocationOnUncapturedStream, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] {
    const c10::cuda::CUDAStreamGuard guard(*side);
    TRIGGER(at::empty({kBytes}, bytes));
  });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(AllocationOnUncapturedStream, ReproducesInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] {
    const c10::cuda::CUDAStreamGuard guard(*side);
    TRIGGER(at::empty({kBytes}, bytes));
  });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(AllocationOnUncapturedStream, FixRelaxedMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  at::Tensor other;
  {
    const c10::cuda::CUDAStreamGuard guard(*side);
    other = at::empty({kBytes}, bytes);
  }
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}

TEST_F(AllocationOnUncapturedStream, FixAllocateBeforeCapture) {
  at::Tensor other;
  {
    const c10::cuda::CUDAStreamGuard guard(*side);
    other = at::empty({kBytes}, bytes);
  }
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}
