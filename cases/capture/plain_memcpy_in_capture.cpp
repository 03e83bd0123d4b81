// A synchronous cudaMemcpy to the host invalidates the capture that it happens in.
//
// This is how an array on the host is filled without any tensor operation. The call takes no stream: it runs on the
// legacy default stream and returns when the bytes have arrived. The capture runs on a stream that does not block with
// the default stream, so the refusal is for the wait and not for an implicit dependency, which would be 906.
//
// Alone:  g++ cases/capture/plain_memcpy_in_capture.cpp $(ci/libtorch 2.15.0 --flags) -o plain_memcpy_in_capture

#include "fixtures/gpu.h"
#include "harness/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A synchronous cudaMemcpy to the host during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
};

class PlainMemcpyInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    stream.synchronize();
    ASSERT_CUDA(cudaMemcpy(&host, data.data_ptr<float>(), sizeof host, cudaMemcpyDeviceToHost));
  }
  at::Tensor data;
  float host = 0;
};

TEST_F(PlainMemcpyInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(PlainMemcpyInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  Failure first;
  TRIGGER(first = failure_of_code(cudaMemcpy(&host, data.data_ptr<float>(), sizeof host, cudaMemcpyDeviceToHost)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemcpy*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PlainMemcpyInCapture, FixCopyAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    stream.synchronize();
    ASSERT_CUDA(cudaMemcpy(&host, result.data_ptr<float>(), sizeof host, cudaMemcpyDeviceToHost));
    EXPECT_EQ(host, 2.0f * value);
  }
}
