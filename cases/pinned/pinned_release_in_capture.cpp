// Giving cached pinned memory back to the system invalidates a capture.
//
// A pinned tensor that dies only goes into the host cache; emptying that cache calls cudaFreeHost, which waits for the
// device and is therefore refused (900) while a capture is open that covers the calling thread: its own in global and
// thread-local mode, that of any thread in global mode. A block lies in the cache beforehand, and its address tells
// afterwards whether it is still page-locked, so that a call with nothing to free cannot pass for a healthy one.
//
// Alone:  g++ cases/pinned/pinned_release_in_capture.cpp $(tools/libtorch --flags) -o pinned_release_in_capture

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Emptying the cache of pinned memory during a capture invalidates it",
    .sources = {{"capture failures", "Pinned Memory: Forbidden in Global Mode"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory", "memory pools", "threads"},
    .features = {"pinned memory"},
    .fixes =
        {{"FixReleaseAfter", "Call torch._C._host_emptyCache() only after the capture has ended."},
         {"FixRelaxedMode",
          "Capture with capture_error_mode='relaxed' if the capturing thread has to call torch._C._host_emptyCache()."},
         {"FixThreadLocalModeForOtherThread",
          "Capture with capture_error_mode='thread_local' if another thread may call torch._C._host_emptyCache()."}},
};

class PinnedReleaseInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::kCUDA);
    block = at::empty({1 << 20}, at::TensorOptions().pinned_memory(true)).data_ptr();  // Freed at once, hence cached.
  }

  bool page_locked() const {
    cudaPointerAttributes attributes{};
    return cudaPointerGetAttributes(&attributes, block) == cudaSuccess && attributes.type == cudaMemoryTypeHost;
  }

  void check_replays(const at::Tensor& result) {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
    }
  }

  at::Tensor data;
  void* block = nullptr;
};

TEST_F(PinnedReleaseInCapture, ControlNothingCached) {
  empty_host_cache();
  EXPECT_FALSE(page_locked());
  graph->capture_begin();
  const at::Tensor result = data * 2;
  empty_host_cache();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(result);
}

// The two caches are separate: emptying the device's leaves pinned memory alone. Nothing is captured, since up to 2.7
// emptyCache() in a capture fails.
TEST_F(PinnedReleaseInCapture, ControlDeviceCache) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_TRUE(page_locked());
  empty_host_cache();
  EXPECT_FALSE(page_locked());
}

TEST_F(PinnedReleaseInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(empty_host_cache()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFreeHost");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedReleaseInCapture, ReproducesInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(empty_host_cache()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFreeHost");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

// Our own addition: the document speaks of the capturing thread.
TEST_F(PinnedReleaseInCapture, ReproducesInOtherThread) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { TRIGGER(empty_host_cache()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFreeHost");
  REPRODUCES(seen(worker, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedReleaseInCapture, FixReleaseAfter) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(empty_host_cache());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_TRUE(page_locked());
  REMEDY(empty_host_cache());
  EXPECT_FALSE(page_locked());
  check_replays(result);
}

TEST_F(PinnedReleaseInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  empty_host_cache();
  EXPECT_FALSE(page_locked());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(result);
}

TEST_F(PinnedReleaseInCapture, FixThreadLocalModeForOtherThread) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { empty_host_cache(); }); }).join();
  EXPECT_EQ(worker.text, "ok");
  EXPECT_FALSE(page_locked());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(result);
}
