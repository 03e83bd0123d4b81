// Work on the legacy stream that would have to wait for a capture is refused with 906.
//
// The legacy default stream and every blocking stream wait for each other implicitly. While a blocking stream captures,
// its work does not run, so there is nothing that the legacy stream could wait for; CUDA refuses the work and
// invalidates the capture. With a non-blocking stream there is no implicit wait, and the legacy stream meets the
// capture only by an explicit wait for one of its events. LibTorch's pool streams are non-blocking, so through LibTorch
// only the explicit wait remains.
//
// Alone:  g++ cases/errors/e906_implicit.cpp $(tools/libtorch --flags) -o e906_implicit

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Work on the legacy stream that depends on a capture is refused with 906",
    .sources = {{"capture failures", "Common Error Codes"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"}},
    .documented = "906 cudaErrorStreamCaptureImplicit: Operation would create forbidden dependency on default stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "default stream", "side streams", "events"},
    .fixes = {{"FixCaptureOnNonBlockingStream",
               "Capture on a stream that was created with the flag cudaStreamNonBlocking."},
              {"FixWaitAfterTheLaunch",
               "Let the legacy stream wait for an event that is recorded after cudaGraphLaunch(), not for one from the "
               "capture."}},
};

class E906Implicit : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaStreamCreate(&blocking));
  }
  cudaStream_t blocking = nullptr;
};

TEST_F(E906Implicit, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, blocking));
  EXPECT_EQ(captured_nodes(blocking), 1);
  ASSERT_CUDA(cudaStreamEndCapture(blocking, &captured));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, cudaStreamLegacy));
  ASSERT_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E906Implicit, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, blocking));
  TRIGGER(first = failure_of_code(cudaMemsetAsync(out, 1, 1, cudaStreamLegacy)));
  const std::string status = capture_status(blocking);
  const Failure end = failure_of_code(cudaStreamEndCapture(blocking, &captured));
  RAISED_BY("cuMemsetD8Async*");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(E906Implicit, ReproducesThroughEvent) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  TRIGGER(first = failure_of_code(cudaStreamWaitEvent(cudaStreamLegacy, event, 0)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E906Implicit, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  at::cuda::CUDAEvent work;
  graph->capture_begin();
  const at::Tensor result = data * 2;
  work.record(stream);
  const Failure first = failure_of([&] { TRIGGER(work.block(c10::cuda::getDefaultCUDAStream())); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E906Implicit, FixCaptureOnNonBlockingStream) {
  cudaStream_t chosen = blocking;
  REMEDY(chosen = stream);
  ASSERT_CUDA(cudaStreamBeginCapture(chosen, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, chosen));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, cudaStreamLegacy));
  EXPECT_EQ(captured_nodes(chosen), 1);
  ASSERT_CUDA(cudaStreamEndCapture(chosen, &captured));
  ASSERT_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(E906Implicit, FixWaitAfterTheLaunch) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  WITHOUT_REMEDY(ASSERT_CUDA(cudaEventRecord(event, stream));
                 ASSERT_CUDA(cudaStreamWaitEvent(cudaStreamLegacy, event, 0)));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    ASSERT_CUDA(cudaMemsetAsync(in, value, 1, stream));
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(cudaEventRecord(event, stream));
    ASSERT_CUDA(cudaStreamWaitEvent(cudaStreamLegacy, event, 0));
    unsigned char left = 0;
    ASSERT_CUDA(cudaMemcpy(&left, out, 1, cudaMemcpyDeviceToHost));  // On the legacy stream.
    EXPECT_EQ(left, value);
  }
}
