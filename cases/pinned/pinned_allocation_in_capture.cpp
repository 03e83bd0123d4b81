// A pinned allocation that misses the host cache invalidates the capture that it happens in.
//
// LibTorch keeps freed pinned blocks in a cache, by powers of two. Nothing of this size was ever allocated here, so the
// request reaches cudaHostAlloc, which a thread with a global or thread-local capture of its own may not call (900);
// ending the capture returns 901. Only relaxed mode allows it. From 2.11 on LibTorch itself makes this call in relaxed
// mode if the current stream captures.
//
// Alone:  g++ cases/pinned/pinned_allocation_in_capture.cpp $(tools/libtorch --flags) -o pinned_allocation_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A pinned allocation during a capture invalidates it",
    .sources = {{"capture failures", "Pinned Memory: Forbidden in Global Mode"},
                {"upstream", "pytorch#167507"},
                {"upstream", "pytorch#174724"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory"},
    .features = {"pinned memory"},
    .fixes =
        {{"FixAllocateBefore",
          "Call pin_memory() before the capture and capture only the copy from that tensor, with non_blocking=True."},
         {"FixRelaxedMode",
          "Capture with capture_error_mode='relaxed' if pin_memory() has to be called inside, and keep the tensor for "
          "the replays."},
         {"FixNoPinnedMemory",
          "Make the tensor on the GPU with torch.full(..., device='cuda') instead of uploading it from pinned "
          "memory."}},
};

namespace {
constexpr int64_t kSize = 8 << 20;
const at::TensorOptions kPinned = at::TensorOptions().dtype(at::kFloat).pinned_memory(true);
}  // namespace

class PinnedAllocationInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::kCUDA);
    x = at::full({kSize}, 3.0);
    copy = at::empty({kSize}, at::kCUDA);
  }
  at::Tensor data, x, copy;
};

TEST_F(PinnedAllocationInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_TRUE(x.pin_memory().is_pinned());
  EXPECT_TRUE(at::empty({kSize}, kPinned).is_pinned());
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(PinnedAllocationInCapture, ReproducesPinMemory) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(x.pin_memory()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemHostAlloc");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedAllocationInCapture, ReproducesEmptyPinned) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(at::empty({kSize}, kPinned)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemHostAlloc");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedAllocationInCapture, ReproducesInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(x.pin_memory()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemHostAlloc");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedAllocationInCapture, FixAllocateBefore) {
  at::Tensor pinned;
  REMEDY(pinned = x.pin_memory());
  graph->capture_begin();
  WITHOUT_REMEDY(pinned = x.pin_memory());
  copy.copy_(pinned, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    pinned.fill_(value);
    graph->replay();
    EXPECT_EQ(copy.min().item<float>(), value);
    EXPECT_EQ(copy.max().item<float>(), value);
  }
}

TEST_F(PinnedAllocationInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor pinned = x.pin_memory();
  copy.copy_(pinned, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    pinned.fill_(value);
    graph->replay();
    EXPECT_EQ(copy.min().item<float>(), value);
    EXPECT_EQ(copy.max().item<float>(), value);
  }
}

TEST_F(PinnedAllocationInCapture, FixNoPinnedMemory) {
  graph->capture_begin();
  at::Tensor ten;
  REMEDY(ten = at::full({1}, 10, at::kCUDA));
  WITHOUT_REMEDY(ten = at::full({1}, 10, kPinned).to(at::kCUDA, /*non_blocking=*/true));
  const at::Tensor result = ten + data;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>{10.0 + value});
  }
}
