// Querying an event during a capture invalidates the capture, even if the event has nothing to do with it.
//
// The event was recorded and completed before the capture begins. cudaEventQuery is still a potentially unsafe call: a
// thread with a global or thread-local capture of its own may not make it (900), and the capture is invalidated (901 at
// the end). It is allowed in relaxed mode, set either for the capture or for the thread around the query.
//
// Alone:  g++ cases/sync/event_query_in_capture.cpp $(tools/libtorch --flags) -o event_query_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An event query during a capture invalidates it",
    .sources = {{"capture failures", "Direct Query: Forbidden Operations"},
                {"CUDA graph guide", "Quick Checklist"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "events"},
    .features = {"host reads", "events"},
    .fixes =
        {{"FixQueryBefore", "Call event.query() before the capture begins, not while it is open."},
         {"FixQueryAfter", "Call event.query() only after the capture has ended."},
         {"FixRelaxedMode",
          "Capture with capture_error_mode='relaxed', which permits event.query() on events recorded before the "
          "capture."},
         {"FixRelaxedGuardAroundTheQuery",
          "Wrap event.query() in C++ in a c10::cuda::CUDAStreamCaptureModeGuard with cudaStreamCaptureModeRelaxed."}},
};

class EventQueryInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
    event.record(c10::cuda::getDefaultCUDAStream());
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void check_replays(const at::Tensor& z) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, 2.0 * (value + 1)));
    }
  }

  at::Tensor x;
  at::cuda::CUDAEvent event;
};

TEST_F(EventQueryInCapture, ControlNoQuery) {
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(EventQueryInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  const Failure first = failure_of([&] { TRIGGER(event.query()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventQueryInCapture, ReproducesInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor z = x + 1;
  const Failure first = failure_of([&] { TRIGGER(event.query()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventQueryInCapture, FixQueryBefore) {
  EXPECT_TRUE(event.query());
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  WITHOUT_REMEDY(event.query());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(EventQueryInCapture, FixQueryAfter) {
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  WITHOUT_REMEDY(event.query());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_TRUE(event.query());
  check_replays(z);
}

TEST_F(EventQueryInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  at::Tensor z = x + 1;
  EXPECT_TRUE(event.query());
  z = z * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(EventQueryInCapture, FixRelaxedGuardAroundTheQuery) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin();
  at::Tensor z = x + 1;
  {
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    EXPECT_TRUE(event.query());
  }
  z = z * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}
