// An event that was recorded inside a capture cannot be queried, neither during the capture nor after it.
//
// Such an event marks a place in a graph and not a point in time: it never happens, however often the graph is
// replayed. The query therefore fails with an error of its own (907), even in relaxed mode and from a thread that no
// capture restricts. Where the capture's mode forbids the query as such, it is 907 all the same, not 900. After the end
// of the capture the query still fails, with cudaErrorInvalidValue (1) instead of 907. The remedies are to record the
// event again outside a capture, or to record it as an external event.
//
// Alone:  g++ cases/streams/query_of_captured_event.cpp $(tools/libtorch --flags) -o query_of_captured_event

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A query of an event that was recorded inside a capture fails",
    .sources = {{"capture failures", "Direct Query: Forbidden Operations"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorCapturedEvent"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaErrorCapturedEvent(907) during the capture, cudaErrorInvalidValue(1) after it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "events", "threads"},
    .features = {"events"},
    .fixes = {{"FixRecordAgainAfterTheCapture",
               "Record the event again on a stream after the capture has ended, before you call event.query()."},
              {"FixExternalEvent",
               "Record it in the capture with cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal), and "
               "query it after a replay."}},
};

class QueryOfCapturedEvent : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
    event.record(stream);  // Creates it: an event that was never recorded answers without asking CUDA.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void check_replays(const at::Tensor& z) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, value + 1.0));
    }
  }

  at::Tensor x;
  at::cuda::CUDAEvent event;
};

TEST_F(QueryOfCapturedEvent, ControlOtherEvent) {
  at::cuda::CUDAEvent recorded_inside;
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor z = x + 1;
  recorded_inside.record(stream);
  EXPECT_TRUE(event.query());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_TRUE(event.query());
  check_replays(z);
}

TEST_F(QueryOfCapturedEvent, ReproducesInGlobalMode) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  event.record(stream);
  const Failure first = failure_of([&] { TRIGGER(event.query()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(QueryOfCapturedEvent, ReproducesInRelaxedMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor z = x + 1;
  event.record(stream);
  const Failure first = failure_of([&] { TRIGGER(event.query()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(QueryOfCapturedEvent, ReproducesFromOtherThreadInThreadLocalMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor z = x + 1;
  event.record(stream);
  Failure worker;
  std::thread([&] { worker = failure_of([&] { TRIGGER(event.query()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(worker, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(QueryOfCapturedEvent, ReproducesAfterTheCapture) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  TRIGGER(event.record(stream));
  const Failure end = failure_of([&] { graph->capture_end(); });
  graph->replay();
  ASSERT_CUDA(cudaDeviceSynchronize());
  const Failure query = failure_of([&] { event.query(); });
  REPRODUCES("end " + end.text + ", query " + query.text, "end ok, query 1", "end ok, query ok");
}

TEST_F(QueryOfCapturedEvent, FixRecordAgainAfterTheCapture) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  event.record(stream);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
  REMEDY(event.record(stream));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_TRUE(event.query());
}

TEST_F(QueryOfCapturedEvent, FixExternalEvent) {
  unsigned flags = cudaEventRecordDefault;
  REMEDY(flags = cudaEventRecordExternal);
  graph->capture_begin();
  const at::Tensor z = x + 1;
  ASSERT_CUDA(cudaEventRecordWithFlags(event, stream, flags));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
  EXPECT_TRUE(event.query());
}
