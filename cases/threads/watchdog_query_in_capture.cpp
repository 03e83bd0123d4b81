// A watchdog thread that asks whether a collective has finished invalidates a global capture.
//
// NCCL's process group has a thread that queries the event behind each outstanding collective, over and over, and dies
// of the exception if the query falls into a global capture. The stand-in here has the same calls and no NCCL: one
// query before the capture, one while it is open, which a promise brings about. LibTorch had three remedies in turn:
// no watchdog, a counter of pending queries that capture_begin waits for (2.1.1 to 2.6), and a thread-local capture
// mode for the watchdog during its query (2.7 on).
//
// Alone:  g++ cases/threads/watchdog_query_in_capture.cpp $(ci/libtorch --flags) -o watchdog_query_in_capture

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A watchdog's event query invalidates a capture that it falls into",
    .sources = {{"capture failures", "NCCL Watchdog Thread"},
                {"upstream", "pytorch#102542"},
                {"upstream", "pytorch#110665"},
                {"upstream", "pytorch#111875"},
                {"upstream", "pytorch#148594"}},
    .documented = "the watchdog thread may query CUDA events during capture, causing cudaErrorStreamCaptureUnsupported",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .fixes = {{"FixThreadLocalGuardInTheWatchdog",
               "Let the watchdog query under CUDAStreamCaptureModeGuard(cudaStreamCaptureModeThreadLocal), as NCCL's "
               "does from PyTorch 2.7 on."},
              {"FixPendingQueriesHoldTheCaptureBack",
               "In PyTorch 2.1.1 to 2.6, call CUDAGraph::inc_pending_event_queries() before each query and "
               "dec_pending_event_queries() after it."},
              {"FixWithoutWatchdog",
               "Stop the watchdog thread before the capture, and query the collective's event only after the capture "
               "has ended."}},
};

namespace {

// The counter that capture_begin waits for, where this release has one.
template <class G>
auto hold_captures(int) -> decltype(G::inc_pending_event_queries(), bool()) {
  G::inc_pending_event_queries();
  return true;
}
template <class G>
bool hold_captures(...) {
  return false;
}
template <class G>
auto let_captures_go(int) -> decltype(G::dec_pending_event_queries(), void()) {
  G::dec_pending_event_queries();
}
template <class G>
void let_captures_go(...) {}

}  // namespace

class WatchdogQueryInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
    collective.record(c10::cuda::getStreamFromPool());
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // Captures, tells the watchdog to look at the collective while the capture is open, and says what came of it.
  std::string capture_watched(const std::function<void()>& look) {
    Failure watchdog;
    std::promise<void> started, opened;
    std::thread thread([&] {
      EXPECT_TRUE(collective.query());
      started.set_value();
      opened.get_future().wait();
      watchdog = failure_of(look);
    });
    started.get_future().wait();
    graph->capture_begin();
    out = x + 1;
    opened.set_value();
    thread.join();
    const std::string status = capture_status(stream);
    nodes = captured_nodes(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(watchdog, status, end);
  }

  void check_replays() {
    EXPECT_GT(nodes, 0);
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(out), std::vector<double>(8, value + 1.0));
    }
  }

  at::Tensor x, out;
  at::cuda::CUDAEvent collective;
  int nodes = -1;
};

TEST_F(WatchdogQueryInCapture, ControlNothingOutstanding) {
  EXPECT_EQ(capture_watched([] {}), "ok > active > ok");
  check_replays();
}

TEST_F(WatchdogQueryInCapture, Reproduces) {
  const std::string found = capture_watched([&] { TRIGGER(collective.query()); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(WatchdogQueryInCapture, FixThreadLocalGuardInTheWatchdog) {
  const std::string found = capture_watched([&] {
    const c10::cuda::CUDAStreamCaptureModeGuard guard(cudaStreamCaptureModeThreadLocal);
    EXPECT_TRUE(collective.query());
  });
  EXPECT_EQ(found, "ok > active > ok");
  check_replays();
}

TEST_F(WatchdogQueryInCapture, FixPendingQueriesHoldTheCaptureBack) {
  if (!hold_captures<Graph>(0)) NOT_APPLICABLE("capture_begin counts no pending event queries");
  std::atomic<bool> asked = false;
  std::thread watchdog([&] {
    EXPECT_TRUE(collective.query());
    asked = true;
    let_captures_go<Graph>(0);
  });
  graph->capture_begin();
  EXPECT_TRUE(asked);
  out = x + 1;
  nodes = captured_nodes(stream);
  graph->capture_end();
  watchdog.join();
  check_replays();
}

TEST_F(WatchdogQueryInCapture, FixWithoutWatchdog) {
  graph->capture_begin();
  out = x + 1;
  nodes = captured_nodes(stream);
  graph->capture_end();
  EXPECT_TRUE(collective.query());
  check_replays();
}
