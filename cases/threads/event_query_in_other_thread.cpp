// Another thread that queries an event or a stream invalidates a global capture.
//
// In global mode, LibTorch's default, one open capture forbids potentially unsafe calls to every thread, whatever they
// concern. The worker queries an event and a stream that have nothing to do with the graph, between the capture's begin
// and its end by construction. The query fails (900) in the worker, and the capturing thread, which did nothing wrong,
// finds its capture invalidated (901).
//
// Alone:  g++ cases/threads/event_query_in_other_thread.cpp $(tools/libtorch --flags) -o event_query_in_other_thread

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A background thread that queries an event invalidates the capture of another thread",
    .sources = {{"capture failures", "Background Thread Queries"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "events"},
    .features = {"threads", "events"},
    .fixes = {{"FixThreadLocalMode",
               "Capture with capture_error_mode='thread_local', so that background threads may call event.query() "
               "meanwhile."},
              {"FixRelaxedMode",
               "Capture with capture_error_mode='relaxed', which lets every thread query events that were recorded "
               "outside the capture."},
              {"FixStopTheWorker",
               "Stop the thread that calls event.query() before the capture begins, and start it again after the "
               "capture has ended."},
              {"FixCoordinateByALock",
               "Hold a lock during the whole capture, and let the worker call event.query() only while it holds the "
               "same lock."}},
};

class EventQueryInOtherThread : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3.0, at::kCUDA);
    y = at::full({8}, 2.0, at::kCUDA);
    event.record(c10::cuda::getDefaultCUDAStream());
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // The worker's whole life is one query, while this thread waits.
  Failure query_in_other_thread() {
    Failure worker;
    std::thread([&] { worker = failure_of([&] { event.query(); }); }).join();
    return worker;
  }

  // A capture in which `worker` acts between two operations, and its replays. Neither may fail.
  void capture_around(const std::function<Failure()>& worker, cudaStreamCaptureMode mode) {
    graph->capture_begin({0, 0}, mode);
    at::Tensor z = x + y;
    EXPECT_EQ(worker().text, "ok");
    z = z / y;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {4, 8}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, (value + 2) / 2.0));
    }
  }

  at::Tensor x, y;
  at::cuda::CUDAEvent event;
};

TEST_F(EventQueryInOtherThread, ControlIdleWorker) {
  capture_around(
      [] {
        std::thread([] {}).join();
        return Failure();
      },
      cudaStreamCaptureModeGlobal);
}

TEST_F(EventQueryInOtherThread, Reproduces) {
  graph->capture_begin();
  const at::Tensor z = x + y;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { TRIGGER(event.query()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(worker, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventQueryInOtherThread, ReproducesStreamQuery) {
  const c10::cuda::CUDAStream other = c10::cuda::getStreamFromPool();
  graph->capture_begin();
  const at::Tensor z = x + y;
  Failure worker;
  std::thread([&] { worker = failure_of([&] { TRIGGER(other.query()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamQuery");
  REPRODUCES(seen(worker, status, end), "900 > invalidated > 901", "ok > active > ok");
}

// What the capturing thread itself sees: its next operation is the first that fails.
TEST_F(EventQueryInOtherThread, ReproducesInTheCapturingThread) {
  graph->capture_begin();
  at::Tensor z = x + y;
  std::thread([&] { failure_of([&] { TRIGGER(event.query()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure first = failure_of([&] { z.div_(y); });
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "901 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventQueryInOtherThread, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  capture_around([&] { return query_in_other_thread(); }, mode);
}

TEST_F(EventQueryInOtherThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  capture_around([&] { return query_in_other_thread(); }, mode);
}

TEST_F(EventQueryInOtherThread, FixStopTheWorker) {
  EXPECT_EQ(query_in_other_thread().text, "ok");
  capture_around(
      [&] {
        Failure worker;
        WITHOUT_REMEDY(worker = query_in_other_thread());
        return worker;
      },
      cudaStreamCaptureModeGlobal);
  EXPECT_EQ(query_in_other_thread().text, "ok");
}

// The worker queries all the time, but only under a lock that the capture holds. Without the remedy the worker takes
// another lock, and the capture waits for the query that fails.
TEST_F(EventQueryInOtherThread, FixCoordinateByALock) {
  std::mutex no_capture, unrelated;
  std::mutex* lock_of_worker = &unrelated;
  REMEDY(lock_of_worker = &no_capture);
  std::promise<void> queried;
  std::atomic<bool> captured{false};
  std::future<Failure> worker = std::async(std::launch::async, [&] {
    const auto query = [&] {
      const std::lock_guard<std::mutex> lock(*lock_of_worker);
      return failure_of([&] { event.query(); });
    };
    Failure failure = query();
    queried.set_value();
    while (!failure && !captured) failure = query();
    return failure;
  });
  queried.get_future().wait();
  const Failure capture = failure_of([&] {
    const std::lock_guard<std::mutex> lock(no_capture);
    capture_around(
        [&] {
          WITHOUT_REMEDY(worker.wait());
          return Failure();
        },
        cudaStreamCaptureModeGlobal);
  });
  captured = true;
  EXPECT_EQ(worker.get().text, "ok");
  EXPECT_EQ(capture.text, "ok");
}
