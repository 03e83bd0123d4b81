// Waiting for the capturing stream invalidates its capture.
//
// A capturing stream records and executes nothing, so there is no work whose end could be waited for. No capture mode
// helps: the mode governs calls that may be unsafe, and this one contradicts the capture itself.
//
// Alone:  g++ cases/sync/stream_synchronize_in_capture.cpp $(tools/libtorch --flags) -o stream_synchronize_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Synchronising the capturing stream invalidates its capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixSynchronizeAfterReplay",
               "Call stream.synchronize() after graph.replay(), not while the stream is capturing."}},
};

class StreamSynchronizeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
  }
  at::Tensor data;
};

TEST_F(StreamSynchronizeInCapture, Control) {
  stream.synchronize();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  stream.synchronize();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(StreamSynchronizeInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(stream.synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamSynchronizeInCapture, ReproducesInRelaxedMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(stream.synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamSynchronizeInCapture, FixSynchronizeAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(stream.synchronize());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    stream.synchronize();
    EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
  }
}
