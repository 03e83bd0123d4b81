// Querying any stream during a capture invalidates the capture.
//
// Asking whether an idle stream outside the capture has finished is potentially unsafe: 900 in global and thread-local
// mode, allowed in relaxed mode. Asking it of the capturing stream has no answer, because that stream executes nothing,
// so the query fails in relaxed mode too. Either query invalidates the capture (901 at the end).
//
// Alone:  g++ cases/sync/stream_query_in_capture.cpp $(tools/libtorch --flags) -o stream_query_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A stream query during a capture invalidates it",
    .sources = {{"capture failures", "Direct Query: Forbidden Operations"},
                {"CUDA graph guide", "Quick Checklist"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "side streams"},
    .features = {"host reads"},
    .fixes = {{"FixQueryBefore", "Call stream.query() before the capture begins, not while it is open."},
              {"FixQueryAfter", "Call stream.query() only after the capture has ended."},
              {"FixRelaxedModeForOtherStream",
               "Capture with capture_error_mode='relaxed' and query only streams that take no part in the capture."}},
};

class StreamQueryInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
    other = c10::cuda::getStreamFromPool();
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // Queries `queried` once in a capture of the mode, and says what came of it.
  std::string query_in_capture(const c10::cuda::CUDAStream& queried, cudaStreamCaptureMode mode) {
    graph->capture_begin({0, 0}, mode);
    const at::Tensor z = x + 1;
    const Failure first = failure_of([&] { TRIGGER(queried.query()); });
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    RAISED_BY("cuStreamQuery");
    return seen(first, status, end);
  }

  void check_replays(const at::Tensor& z) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, 2.0 * (value + 1)));
    }
  }

  at::Tensor x;
  c10::cuda::CUDAStream other = stream;
};

TEST_F(StreamQueryInCapture, ControlNoQuery) {
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(StreamQueryInCapture, ReproducesOtherStream) {
  const std::string found = query_in_capture(other, cudaStreamCaptureModeGlobal);
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamQueryInCapture, ReproducesOtherStreamInThreadLocalMode) {
  const std::string found = query_in_capture(other, cudaStreamCaptureModeThreadLocal);
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamQueryInCapture, ReproducesCapturingStream) {
  const std::string found = query_in_capture(stream, cudaStreamCaptureModeGlobal);
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamQueryInCapture, ReproducesCapturingStreamInRelaxedMode) {
  const std::string found = query_in_capture(stream, cudaStreamCaptureModeRelaxed);
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(StreamQueryInCapture, FixQueryBefore) {
  EXPECT_TRUE(other.query());
  EXPECT_TRUE(stream.query());
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  WITHOUT_REMEDY(other.query());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(StreamQueryInCapture, FixQueryAfter) {
  graph->capture_begin();
  const at::Tensor z = (x + 1) * 2;
  WITHOUT_REMEDY(stream.query());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_TRUE(other.query());
  EXPECT_TRUE(stream.query());
  check_replays(z);
}

TEST_F(StreamQueryInCapture, FixRelaxedModeForOtherStream) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  at::Tensor z = x + 1;
  EXPECT_TRUE(other.query());
  z = z * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}
