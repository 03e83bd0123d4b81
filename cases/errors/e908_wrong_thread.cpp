// Ending a capture on another thread than the one that began it is refused with 908.
//
// Global and thread-local captures restrict what their thread may call, so the thread is part of the capture, and CUDA
// requires the same thread to end it. A relaxed capture restricts no thread, and any thread may end it. The second
// thread here runs from start to end between two calls of the first, so the order is fixed and only the thread differs.
// The refused call ends the capture nevertheless: afterwards the stream captures nothing, and the thread that began the
// capture finds nothing to end (401).
//
// Alone:  g++ cases/errors/e908_wrong_thread.cpp $(tools/libtorch --flags) -o e908_wrong_thread

#include <thread>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ending a capture on another thread is refused with 908",
    .sources = {{"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureWrongThread"}},
    .documented = "908 cudaErrorStreamCaptureWrongThread: begun in a non-relaxed mode, ended from another thread",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "threads"},
    .features = {"threads"},
    .fixes =
        {{"FixRelaxedMode",
          "Begin the capture with cudaStreamCaptureModeRelaxed if another thread is to call cudaStreamEndCapture()."}},
};

class E908WrongThread : public RuntimeTest {
 protected:
  Failure end_elsewhere() {
    Failure failure;
    std::thread([&] { failure = failure_of_code(cudaStreamEndCapture(stream, &captured)); }).join();
    return failure;
  }
};

TEST_F(E908WrongThread, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  std::string status;
  std::thread([&] { status = capture_status(stream); }).join();
  EXPECT_EQ(status, "active");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(E908WrongThread, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = end_elsewhere());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "908 > none > 401", "ok > active > ok");
}

TEST_F(E908WrongThread, ReproducesInThreadLocalMode) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = end_elsewhere());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "908 > none > 401", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E908WrongThread, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  Failure first;
  TRIGGER(std::thread([&] {
            c10::cuda::setCurrentCUDAStream(stream);
            first = failure_of([&] { graph->capture_end(); });
          }).join());
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "908 > none > 401", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E908WrongThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_EQ(end_elsewhere().text, "ok");
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
