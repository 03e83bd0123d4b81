// A tensor made by another thread invalidates a capture in global mode.
//
// That thread's stream does not capture, so LibTorch calls cudaMalloc without entering relaxed mode, and an open global
// capture forbids the call to every thread. The thread gets 900, and the capturing thread 901 when it ends the capture.
// The size is new, so that the cache cannot serve the request. The document says that allocation is allowed; this
// exception is our own addition.
//
// Alone:  g++ cases/threads/allocation_in_other_thread.cpp $(tools/libtorch --flags) -o allocation_in_other_thread

#include <optional>
#include <string>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A device allocation in another thread invalidates a capture in global mode",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"PyTorch documentation", "torch.cuda.graph"}},
    .documented = "900 in the allocating thread, 901 at the end of the capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads"},
    .features = {"threads"},
    .fixes =
        {{"FixThreadLocalMode",
          "Capture with capture_error_mode='thread_local', so that other threads may allocate GPU memory meanwhile."},
         {"FixRelaxedMode",
          "Capture with capture_error_mode='relaxed', which lets every thread call cudaMalloc during the capture."},
         {"FixFillTheCacheBefore",
          "Allocate and free a tensor of that size on that thread's stream first; call capture_begin() yourself, since "
          "torch.cuda.graph() empties the cache."}},
};

namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

}  // namespace

class AllocationInOtherThread : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    other_stream = c10::cuda::getStreamFromPool();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  // What happens to a thread with a stream of its own that makes a tensor.
  Failure allocate_in_other_thread() {
    Failure failure;
    std::thread([&] {
      failure = failure_of([&] {
        const c10::cuda::CUDAStreamGuard guard(*other_stream);
        TRIGGER(at::empty({kBytes}, at::device(at::kCUDA).dtype(at::kByte)));
      });
    }).join();
    return failure;
  }

  void replay_twice(const at::Tensor& result) {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
    }
  }

  at::Tensor data;
  std::optional<c10::cuda::CUDAStream> other_stream;
};

TEST_F(AllocationInOtherThread, Control) {
  EXPECT_EQ(allocate_in_other_thread().text, "ok");
  c10::cuda::CUDACachingAllocator::emptyCache();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}

TEST_F(AllocationInOtherThread, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = allocate_in_other_thread();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(AllocationInOtherThread, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  EXPECT_EQ(allocate_in_other_thread().text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}

TEST_F(AllocationInOtherThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  EXPECT_EQ(allocate_in_other_thread().text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}

TEST_F(AllocationInOtherThread, FixFillTheCacheBefore) {
  REMEDY(EXPECT_EQ(allocate_in_other_thread().text, "ok"));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_EQ(allocate_in_other_thread().text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  replay_twice(result);
}
