// Another thread that pins memory invalidates a global capture, and its own allocation fails.
//
// In global mode one open capture forbids potentially unsafe calls to every thread. Pinning makes up to two of them:
// the query of events that earlier copies left behind, and cudaHostAlloc if the cache has no block of the size. The
// worker here pins between the capture's begin and its end by construction: in one test a size never seen before, in
// another a size with a free block in the cache while an event is pending, and in the control the free block alone,
// which is harmless. Its current stream is the default stream, which does not capture, so no release makes an exception
// for it.
//
// Alone:  g++ cases/pinned/pinned_allocation_in_other_thread.cpp $(tools/libtorch --flags) -o pinned_allocation_in_other_thread

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A background thread that pins memory invalidates the capture of another thread",
    .sources = {{"capture failures", "Pinned Memory Allocation: Hidden Event Queries"}, {"upstream", "pytorch#174724"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory", "data loader", "threads"},
    .features = {"pinned memory", "threads"},
    .fixes = {{"FixThreadLocalMode",
               "Capture with capture_error_mode='thread_local', so that other threads may pin memory."},
              {"FixRelaxedMode",
               "Capture with capture_error_mode='relaxed', which leaves every thread free to pin memory."},
              {"FixStopTheWorker", "Join or pause the threads that call pin_memory() before the capture begins."},
              {"FixPinBefore",
               "Call pin_memory() for all that other threads need before the capture begins, and let them only use it "
               "meanwhile."}},
    .connections = 8,
};

namespace {
const at::TensorOptions kPinned = at::TensorOptions().dtype(at::kFloat).pinned_memory(true);
}  // namespace

class PinnedAllocationInOtherThread : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
    data = at::full({8}, 4, at::kFloat);
    large = at::full({1 << 20}, 4, at::kFloat);
    t1 = data.pin_memory();
    at::empty({8}, kPinned);  // Freed at once: from here on the cache holds a free block for `data`, none for `large`.
    t2 = at::empty({8}, at::kCUDA);
  }

  // The document's "setup that causes events to be tracked".
  void leave_an_event() {
    t2.copy_(t1, /*non_blocking=*/true);
    t1.reset();
  }

  // The worker's whole life: a pending event and a cache miss, while this thread waits.
  Failure pin_in_other_thread() {
    Failure worker;
    std::thread([&] { worker = failure_of([&] { data.pin_memory(), large.pin_memory(); }); }).join();
    return worker;
  }

  void check_replays(const at::Tensor& z) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, value + 1.0));
    }
  }

  at::Tensor x, data, large, t1, t2;
};

TEST_F(PinnedAllocationInOtherThread, ControlCacheHit) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { data.pin_memory(); }); }).join();
  EXPECT_EQ(worker.text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(PinnedAllocationInOtherThread, ReproducesPendingEvent) {
  TRIGGER(leave_an_event());
  graph->capture_begin();
  const at::Tensor z = x + 1;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { data.pin_memory(); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(worker, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedAllocationInOtherThread, ReproducesCacheMiss) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { TRIGGER(large.pin_memory()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemHostAlloc");
  REPRODUCES(seen(worker, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PinnedAllocationInOtherThread, FixThreadLocalMode) {
  leave_an_event();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor z = x + 1;
  EXPECT_EQ(pin_in_other_thread().text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(PinnedAllocationInOtherThread, FixRelaxedMode) {
  leave_an_event();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor z = x + 1;
  EXPECT_EQ(pin_in_other_thread().text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(PinnedAllocationInOtherThread, FixStopTheWorker) {
  leave_an_event();
  REMEDY(EXPECT_EQ(pin_in_other_thread().text, "ok"));
  graph->capture_begin();
  const at::Tensor z = x + 1;
  WITHOUT_REMEDY(EXPECT_EQ(pin_in_other_thread().text, "ok"));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(PinnedAllocationInOtherThread, FixPinBefore) {
  leave_an_event();
  at::Tensor pinned;
  REMEDY(pinned = data.pin_memory());
  graph->capture_begin();
  const at::Tensor z = x + 1;
  Failure worker;
  std::thread([&] {
    worker = failure_of([&] {
      WITHOUT_REMEDY(pinned = data.pin_memory());
      EXPECT_EQ(values(pinned), std::vector<double>(8, 4));
    });
  }).join();
  ASSERT_EQ(worker.text, "ok");
  t2.copy_(pinned, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    pinned.fill_(10 * value);
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(z), std::vector<double>(8, value + 1.0));
    EXPECT_EQ(values(t2), std::vector<double>(8, 10.0 * value));
  }
}
