// A pinned allocation during a capture first queries the events of earlier copies from pinned tensors that have died
// since, and the query invalidates the capture, even if the cache could have served the request.
//
// A pinned tensor that was the source of a non-blocking copy goes back to the cache only when the copy has happened. An
// event tells, which the next allocation queries with cudaEventQuery, and CUDA refuses that (900) during a capture.
// Here the cache holds a block of the requested size, so cudaHostAlloc is not called and only the query can fail.
// From 2.11 on LibTorch queries no events while the current stream captures.
//
// Alone:  g++ cases/pinned/pinned_event_query_in_capture.cpp $(tools/libtorch --flags) -o pinned_event_query_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A pinned allocation during a capture queries the events of earlier copies and invalidates it",
    .sources = {{"capture failures", "Pinned Memory: Forbidden in Global Mode"},
                {"capture failures", "Pinned Memory Allocation: Hidden Event Queries"},
                {"upstream", "pytorch#164001"}},
    .documented = "process_events() is called in allocate(): event queries are forbidden during capture (900)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory"},
    .features = {"pinned memory"},
    .fixes =
        {{"FixAllocateBefore",
          "Allocate pinned tensors before the capture begins, so that the allocator queries its events outside it."},
         {"FixRelaxedMode",
          "Capture with capture_error_mode='relaxed', so that a pinned allocation inside may query events of earlier "
          "copies."}},
    .connections = 8,
};

namespace {
constexpr int64_t kSize = 8;
constexpr int64_t kHalfASecond = 1'000'000'000;  // In clock cycles, about.
const at::TensorOptions kPinned = at::TensorOptions().dtype(at::kFloat).pinned_memory(true);
}  // namespace

class PinnedEventQueryInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::kCUDA);
    source = at::full({kSize}, 3, kPinned);
    at::empty({kSize}, kPinned);  // Freed at once: a free block of the size is in the cache from here on.
    copy = at::empty({kSize}, at::kCUDA);
  }

  void check_replays(const at::Tensor& result) {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
    }
  }

  at::Tensor data, source, copy;
};

TEST_F(PinnedEventQueryInCapture, ControlCacheHit) {
  source.reset();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_EQ(failure_of([&] { at::empty({kSize}, kPinned); }).text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(result);
}

TEST_F(PinnedEventQueryInCapture, Reproduces) {
  TRIGGER(copy.copy_(source, /*non_blocking=*/true));
  source.reset();
  ASSERT_CUDA(cudaStreamSynchronize(stream));  // The copy has happened; nobody has queried its event yet.
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { at::empty({kSize}, kPinned); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedEventQueryInCapture, ReproducesWhileTheCopyIsOutstanding) {
  at::cuda::sleep(kHalfASecond);
  TRIGGER(copy.copy_(source, /*non_blocking=*/true));
  source.reset();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { at::empty({kSize}, kPinned); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedEventQueryInCapture, ReproducesInThreadLocalMode) {
  TRIGGER(copy.copy_(source, /*non_blocking=*/true));
  source.reset();
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { at::empty({kSize}, kPinned); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedEventQueryInCapture, FixAllocateBefore) {
  copy.copy_(source, /*non_blocking=*/true);
  source.reset();
  at::Tensor pinned;
  REMEDY(pinned = at::empty({kSize}, kPinned));
  graph->capture_begin();
  WITHOUT_REMEDY(pinned = at::empty({kSize}, kPinned));
  copy.copy_(pinned, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    pinned.fill_(value);
    graph->replay();
    EXPECT_EQ(values(copy), std::vector<double>(kSize, value));
  }
}

TEST_F(PinnedEventQueryInCapture, FixRelaxedMode) {
  copy.copy_(source, /*non_blocking=*/true);
  source.reset();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor result = data * 2;
  EXPECT_EQ(failure_of([&] { at::empty({kSize}, kPinned); }).text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(result);
}
