// A tensor made on a stream that does not capture invalidates the capture of another stream, in the same thread too.
//
// LibTorch enters relaxed mode around cudaMalloc only if the thread's current stream captures. For any other stream it
// calls cudaMalloc as it is, which global mode forbids to every thread and thread-local mode to the capturing one. The
// size is new, so that the cache cannot serve the request. The document says that allocation is allowed; this exception
// is our own addition, from LibTorch's source.
//
// Alone:  g++ cases/memory/allocation_on_uncaptured_stream.cpp $(tools/libtorch --flags) -o allocation_on_uncaptured_stream

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
    .tags = {"side streams", "memory pools"},
    .features = {"side streams"},
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

  at::Tensor allocate_on_side_stream() const {
    const c10::cuda::CUDAStreamGuard guard(*side);
    return at::empty({kBytes}, bytes);
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
  replay_twice(result);
}

TEST_F(AllocationOnUncapturedStream, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(allocate_on_side_stream()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(AllocationOnUncapturedStream, ReproducesInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(allocate_on_side_stream()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(AllocationOnUncapturedStream, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  const at::Tensor other = allocate_on_side_stream();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}

TEST_F(AllocationOnUncapturedStream, FixAllocateBeforeCapture) {
  at::Tensor other;
  REMEDY(other = allocate_on_side_stream());
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(other = allocate_on_side_stream());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}
