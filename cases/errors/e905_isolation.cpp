// A capturing stream that waits for work from outside its capture is refused with 905.
//
// An ordinary wait in a capture becomes an edge between two nodes of the graph. Work that was issued before the capture
// has no node, so there is nothing to draw the edge from. A wait with the external flag becomes a node of its own: each
// launch then waits for whatever precedes the event's latest record. In the fix a kernel spins on the other stream
// before the input is written, so a launch that did not wait would read the old byte.
//
// Alone:  g++ cases/errors/e905_isolation.cpp $(tools/libtorch --flags) -o e905_isolation

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture that waits for uncaptured work is refused with 905",
    .sources = {{"capture failures", "Common Error Codes"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureIsolation"}},
    .documented = "905 cudaErrorStreamCaptureIsolation: Captured stream depends on uncaptured work",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "side streams", "events"},
    .fixes = {{"FixWaitWithTheExternalFlag",
               "Pass cudaEventWaitExternal to cudaStreamWaitEvent(), so that each launch waits for the event's latest "
               "record."}},
    .connections = 8,
};

constexpr int64_t kSpinCycles = 20'000'000;  // About 10 ms.

class E905Isolation : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMemsetAsync(in, 1, 1, side));
    ASSERT_CUDA(cudaEventRecord(event, side));
  }
};

TEST_F(E905Isolation, Control) {
  ASSERT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E905Isolation, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  TRIGGER(first = failure_of_code(cudaStreamWaitEvent(stream, event, 0)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "905 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E905Isolation, ReproducesThroughLibTorch) {
  at::cuda::CUDAEvent earlier;
  earlier.record(side);
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(earlier.block(stream)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "905 > invalidated > 901", "ok > active > ok");
}

TEST_F(E905Isolation, FixWaitWithTheExternalFlag) {
  unsigned flags = cudaEventWaitDefault;
  REMEDY(flags = cudaEventWaitExternal);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaStreamWaitEvent(stream, event, flags));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    unsigned char left = 0;
    {
      const c10::cuda::CUDAStreamGuard guard(side);
      at::cuda::sleep(kSpinCycles);
    }
    ASSERT_CUDA(cudaMemsetAsync(in, value, 1, side));
    ASSERT_CUDA(cudaEventRecord(event, side));
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(left, value);
  }
}
#endif  // RECAPTURE_HAS_LIBTORCH
