// A query of an event that was last recorded in a capture is refused with 907.
//
// Recorded in a capture, an event marks a place in a graph and not a moment in a stream: it is neither reached nor
// pending. The end of the capture does not change that until the event is recorded again outside, but a query then
// returns cudaErrorInvalidValue (1) instead of 907. The captures are in relaxed mode, which does not forbid queries, so
// that nothing but the event can be wrong.
//
// Alone:  g++ cases/errors/e907_captured_event.cpp $(tools/libtorch --flags) -o e907_captured_event

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Querying an event that was last recorded in a capture is refused with 907",
    .sources = {{"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorCapturedEvent"}},
    .documented = "907 cudaErrorCapturedEvent: operation not permitted on an event last recorded in a capturing stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "events"},
    .features = {"events"},
    .fixes = {{"FixRecordAgainOutside",
               "Call cudaEventRecord() again after cudaGraphLaunch(), outside any capture, before you query or wait "
               "for the event."}},
};

using E907CapturedEvent = RuntimeTest;

TEST_F(E907CapturedEvent, Control) {
  ASSERT_CUDA(cudaEventRecord(event, side));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventSynchronize(event));
  ASSERT_CUDA(cudaEventQuery(event));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E907CapturedEvent, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  TRIGGER(first = failure_of_code(cudaEventQuery(event)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(E907CapturedEvent, ReproducesInSynchronize) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  TRIGGER(first = failure_of_code(cudaEventSynchronize(event)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(E907CapturedEvent, ReproducesAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(ASSERT_CUDA(cudaEventRecord(event, stream)));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const Failure late = failure_of_code(cudaEventQuery(event));
  REPRODUCES(late.text, "1", "ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E907CapturedEvent, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  at::cuda::CUDAEvent work;
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  work.record(stream);
  const Failure first = failure_of([&] { TRIGGER(work.query()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E907CapturedEvent, FixRecordAgainOutside) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    REMEDY(ASSERT_CUDA(cudaEventRecord(event, stream)));
    ASSERT_CUDA(cudaEventSynchronize(event));
    ASSERT_CUDA(cudaEventQuery(event));
  }
}
