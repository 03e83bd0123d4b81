// Ending a capture while a forked stream has not been joined to its origin fails with 904.
//
// A stream enters a capture by waiting for its work, and is joined again when the origin waits for the stream in turn.
// Nothing would order unjoined work before the graph's completion, so CUDA refuses to end the capture. Nothing shows
// until then: all calls succeed and the capture reports itself as active.
//
// Alone:  g++ cases/errors/e904_unjoined.cpp $(tools/libtorch --flags) -o e904_unjoined

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ending a capture with work that is not joined fails with 904",
    .sources = {{"capture failures", "Common Error Codes"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureUnjoined"}},
    .documented = "904 cudaErrorStreamCaptureUnjoined: Stream didn't rejoin before capture ended",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "side streams", "events"},
    .features = {"side streams"},
    .fixes = {{"FixJoinBeforeTheEnd",
               "Record an event on the side stream, and let the origin wait for it with cudaStreamWaitEvent() before "
               "the capture ends."}},
};

class E904Unjoined : public RuntimeTest {
 protected:
  void join() {
    ASSERT_CUDA(cudaEventRecord(event, side));
    ASSERT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  }
};

TEST_F(E904Unjoined, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E904Unjoined, Reproduces) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  const Failure first = failure_of_code(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, side));
  WITHOUT_TRIGGER(join());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "ok > active > 904", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E904Unjoined, ReproducesThroughLibTorch) {
  at::Tensor data = at::full({1}, 3, at::kCUDA);
  at::cuda::CUDAEvent fork;
  graph->capture_begin();
  fork.record(stream);
  fork.block(side);
  const Failure first = failure_of([&] {
    const c10::cuda::CUDAStreamGuard guard(side);
    data.mul_(2);
  });
  WITHOUT_TRIGGER(join());
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "ok > active > 904", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E904Unjoined, FixJoinBeforeTheEnd) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, side));
  REMEDY(join());
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
