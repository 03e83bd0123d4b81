// A watchdog thread that queries whether a collective has finished invalidates a global capture.
//
// The process group of NCCL has a thread that queries the event behind each outstanding collective, over and over, and
// an exception ends that thread if the query falls into a global capture. The watchdog here is a stand-in that makes
// the same calls without NCCL: one query before the capture, and one while it is open, which a promise ensures. The
// real watchdog is in nccl_watchdog_in_capture. LibTorch had three remedies in turn: no watchdog, a counter of pending
// queries that capture_begin waits for (2.1.1 to 2.6), and a thread-local capture mode for the watchdog during its
// query (2.7 on).
//
// Alone:  g++ cases/threads/watchdog_query_in_capture.cpp $(tools/libtorch --flags) -o watchdog_query_in_capture

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <type_traits>

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
    .tags = {"threads", "events", "NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .fixes = {{"FixThreadLocalGuardInTheWatchdog",
               "Let the watchdog query under CUDAStreamCaptureModeGuard(cudaStreamCaptureModeThreadLocal), as NCCL's "
               "does from PyTorch 2.7 on."},
              {"FixPendingQueriesHoldTheCaptureBack",
               "In PyTorch 2.1.1 to 2.6, call CUDAGraph::inc_pending_event_queries() before each query and "
               "dec_pending_event_queries() after it.",
               ">=2.1.1, <2.7"},
              {"FixWithoutWatchdog",
               "Stop the watchdog thread before the capture, and query the collective's event only after the capture "
               "has ended."}},
};

namespace {

// The counter that capture_begin waits for; not in every release.
template <class G, class = void>
struct PendingQueries : std::false_type {
  static void inc() {}
  static void dec() {}
};
template <class G>
struct PendingQueries<G, std::void_t<decltype(G::inc_pending_event_queries())>> : std::true_type {
  static void inc() { G::inc_pending_event_queries(); }
  static void dec() { G::dec_pending_event_queries(); }
};

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

  // Captures, lets the watchdog look at the collective while the capture is open, and returns what was seen.
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
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;  // A thread's own, unless it sets another.
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  const std::string found = capture_watched([&] {
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    EXPECT_TRUE(collective.query());
  });
  ASSERT_EQ(found, "ok > active > ok");
  check_replays();
}

TEST_F(WatchdogQueryInCapture, FixPendingQueriesHoldTheCaptureBack) {
  using Pending = PendingQueries<Graph>;
  if (!Pending::value) NOT_APPLICABLE("capture_begin counts no pending event queries");
  Failure watchdog;
  std::promise<void> opened;
  std::atomic<bool> asked = false;
  REMEDY(Pending::inc());
  std::thread thread([&] {
    WITHOUT_REMEDY(opened.get_future().wait());  // Nothing holds the capture back, so it may open first.
    watchdog = failure_of([&] { EXPECT_TRUE(collective.query()); });
    asked = true;
    REMEDY(Pending::dec());
  });
  graph->capture_begin();
  EXPECT_TRUE(asked);
  opened.set_value();
  thread.join();
  EXPECT_EQ(watchdog.text, "ok");
  out = x + 1;
  nodes = captured_nodes(stream);
  graph->capture_end();
  check_replays();
}

TEST_F(WatchdogQueryInCapture, FixWithoutWatchdog) {
  Failure watchdog;
  graph->capture_begin();
  out = x + 1;
  WITHOUT_REMEDY(std::thread([&] { watchdog = failure_of([&] { collective.query(); }); }).join());
  EXPECT_EQ(watchdog.text, "ok");
  nodes = captured_nodes(stream);
  graph->capture_end();
  REMEDY(EXPECT_TRUE(collective.query()));
  check_replays();
}
