// Waiting for a stream that captures is refused with 900.
//
// A capturing stream stores its work in a graph and runs none of it, so a host that waited for it would wait for ever.
// CUDA refuses the wait and invalidates the capture. The rule belongs to the stream, not to the capture's mode: relaxed
// mode allows calls that are unsafe for a capture elsewhere, but not this one. The work here is one copy of a byte, so
// nothing else can fail.
//
// Alone:  g++ cases/errors/e900_unsupported.cpp $(tools/libtorch --flags) -o e900_unsupported

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Waiting for a capturing stream is refused with 900",
    .sources = {{"capture failures", "Common Error Codes"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureUnsupported"}},
    .documented = "900 cudaErrorStreamCaptureUnsupported: Forbidden operation during capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "host reads"},
    .fixes = {{"FixSynchronizeAfterLaunch",
               "Call cudaStreamSynchronize() after cudaGraphLaunch(), not between the capture's begin and end."}},
};

using E900Unsupported = RuntimeTest;

TEST_F(E900Unsupported, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E900Unsupported, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = failure_of_code(cudaStreamSynchronize(stream)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(E900Unsupported, ReproducesInRelaxedMode) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = failure_of_code(cudaStreamSynchronize(stream)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E900Unsupported, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(stream.synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E900Unsupported, FixSynchronizeAfterLaunch) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamSynchronize(stream)));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);  // launch() waits for the stream.
}
