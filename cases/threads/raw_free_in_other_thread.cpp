// Freeing device memory in another thread invalidates a capture in global mode.
//
// cudaFree counts as potentially unsafe, so a capture in global mode forbids it to every thread. A thread that ends, or
// a destructor that runs in one, then invalidates a capture that it does not know of; the error is the thread's, and
// the capturing thread sees 901. Freeing on the capturing thread is in raw_free_in_capture, what LibTorch's allocator
// does in allocation_in_other_thread.
//
// Alone:  g++ cases/threads/raw_free_in_other_thread.cpp $(tools/libtorch --flags) -o raw_free_in_other_thread

#include <mutex>
#include <thread>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Freeing device memory in another thread invalidates a capture",
    .sources = {{"CUDA programming guide", "Prohibited and Unhandled Operations"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaErrorStreamCaptureUnsupported (900) in the other thread, then 901 in the capturing one",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "raw CUDA calls"},
    .features = {"threads", "raw CUDA calls"},
    .fixes =
        {{"FixFreeAfterTheCapture",
          "Keep device memory in other threads until the capture has ended, and call cudaFree() then."},
         {"FixThreadLocalMode",
          "Begin the capture with cudaStreamCaptureModeThreadLocal if another thread may call cudaFree() meanwhile."},
         {"FixRelaxedMode",
          "Begin the capture with cudaStreamCaptureModeRelaxed if another thread may call cudaFree() meanwhile."},
         {"FixOneLockForBoth",
          "Hold one mutex from the beginning to the end of each capture, and take it around cudaFree()."}},
};

class RawFreeInOtherThread : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&unused, 1 << 20));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  Failure release() const { return failure_of_code(cudaFree(unused)); }

  // From start to end between two calls of this thread.
  Failure release_elsewhere() {
    Failure failure;
    std::thread([&] { failure = release(); }).join();
    return failure;
  }

  void* unused = nullptr;
};

TEST_F(RawFreeInOtherThread, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(release_elsewhere().text, "ok");
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(RawFreeInOtherThread, Reproduces) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure first;
  TRIGGER(first = release_elsewhere());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RawFreeInOtherThread, FixFreeAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(EXPECT_EQ(release_elsewhere().text, "ok"));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(EXPECT_EQ(release_elsewhere().text, "ok"));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(RawFreeInOtherThread, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(release_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(RawFreeInOtherThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(release_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(RawFreeInOtherThread, FixOneLockForBoth) {
  std::mutex mutex;
  std::unique_lock<std::mutex> capturing(mutex, std::defer_lock);
  REMEDY(capturing.lock());
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure failure;
  std::thread other([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    failure = release();
  });
  WITHOUT_REMEDY(other.join());
  EXPECT_EQ(captured_nodes(stream), 1);
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  REMEDY(capturing.unlock(); other.join());
  EXPECT_EQ(failure.text, "ok");
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
