// After a capture is invalidated, every call on its stream returns 901.
//
// 901 never names the culprit. Some earlier call broke a rule, returned its own error, and left the capture
// invalidated; the next work on the stream and the call that ends the capture only report that. The culprit may be in
// another thread: a capture in global mode forbids unsafe calls to all of them, and an allocation there breaks a
// capture that makes no mistake itself. Each test ignores the culprit's error, as a program does that does not check it
// or never sees it.
//
// Alone:  g++ cases/errors/e901_invalidated.cpp $(tools/libtorch --flags) -o e901_invalidated

#include <thread>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "After a capture is invalidated, every call on its stream returns 901",
    .sources = {{"capture failures", "Common Error Codes"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureInvalidated"}},
    .documented = "901 cudaErrorStreamCaptureInvalidated: Capture was interrupted by external work or thread",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "failed captures", "threads"},
    .fixes = {{"FixAllocateBesideThreadLocalCapture",
               "Begin the capture with cudaStreamCaptureModeThreadLocal, so that other threads may call cudaMalloc "
               "meanwhile."},
              {"FixCaptureAgain",
               "End the invalidated capture with cudaStreamEndCapture(), and capture again without the call that broke "
               "it."}},
};

class E901Invalidated : public RuntimeTest {
 protected:
  // Allocates on another thread, which captures nothing.
  static Failure allocate_elsewhere() {
    Failure failure;
    std::thread([&] {
      void* memory = nullptr;
      failure = failure_of_code(cudaMalloc(&memory, 1 << 20));
    }).join();
    return failure;
  }
};

TEST_F(E901Invalidated, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(allocate_elsewhere().text, "ok");
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E901Invalidated, Reproduces) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  TRIGGER((void)cudaStreamSynchronize(stream));
  const Failure next = failure_of_code(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(next, status, end), "901 > invalidated > 901", "ok > active > ok");
}

TEST_F(E901Invalidated, ReproducesFromAnotherThread) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(allocate_elsewhere());
  const Failure next = failure_of_code(cudaMemsetAsync(out, 1, 1, stream));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(next, status, end), "901 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E901Invalidated, ReproducesThroughLibTorch) {
  at::Tensor data = at::full({1}, 3, at::kCUDA);
  graph->capture_begin();
  TRIGGER(failure_of([&] { stream.synchronize(); }));
  const Failure next = failure_of([&] { data.mul_(2); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(next, status, end), "901 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E901Invalidated, FixAllocateBesideThreadLocalCapture) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(allocate_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(E901Invalidated, FixCaptureAgain) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaErrorStreamCaptureInvalidated);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY((void)cudaStreamSynchronize(stream));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
