// Ending a capture on a stream that only joined it is refused with 903.
//
// A capture has one stream of origin. A stream that waits for the capture's work takes part and reports itself as
// capturing, but only the origin may end what it began. LibTorch compares the streams before it calls CUDA, so the
// variant through LibTorch ends the capture behind its back, by the raw handle, as another library would. The refused
// call also invalidates the capture, so that ending it on its origin fails as well.
//
// Alone:  g++ cases/errors/e903_unmatched.cpp $(tools/libtorch --flags) -o e903_unmatched

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ending a capture on a stream that did not begin it is refused with 903",
    .sources = {{"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureUnmatched"}},
    .documented = "903 cudaErrorStreamCaptureUnmatched: capture was not initiated in this stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "side streams", "events"},
    .features = {"raw CUDA calls"},
    .fixes = {{"FixEndOnTheOrigin",
               "Join the side stream back, and call cudaStreamEndCapture() on the stream that cudaStreamBeginCapture() "
               "was called on."}},
};

using E903Unmatched = RuntimeTest;

TEST_F(E903Unmatched, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, side));
  ASSERT_CUDA(cudaEventRecord(event, side));
  ASSERT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(capture_status(side), "active");
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E903Unmatched, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  TRIGGER(first = failure_of_code(cudaStreamEndCapture(side, &captured)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "903 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E903Unmatched, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  at::cuda::CUDAEvent work;
  graph->capture_begin();
  const at::Tensor result = data * 2;
  work.record(stream);
  work.block(side);
  Failure first;
  TRIGGER(first = failure_of_code(cudaStreamEndCapture(side, &captured)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "903 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E903Unmatched, FixEndOnTheOrigin) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, side));
  ASSERT_CUDA(cudaEventRecord(event, side));
  ASSERT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(captured_nodes(stream), 1);
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamEndCapture(side, &captured)));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
