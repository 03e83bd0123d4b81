// Registering host memory in another thread invalidates a capture in global mode.
//
// cudaHostRegister pins memory of the program's own. It takes long, so it is mostly done in the background: by a cache
// that offloads to the host, by a loader of weights. It counts as potentially unsafe, and a capture in global mode
// forbids it to every thread. In the report the registration ran asynchronously until a capture met it, and the program
// seemed to hang; the remedy there was to register before the capture again. In thread-local or relaxed mode another
// thread may register, and a lock that both take keeps the two apart.
//
// Alone:  g++ cases/threads/host_register_in_other_thread.cpp $(tools/libtorch --flags) -o host_register_in_other_thread

#include <cstdlib>
#include <mutex>
#include <thread>

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Registering host memory in another thread invalidates a capture",
    .sources = {{"upstream", "vllm#46933"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "cudaHostRegister fails with cudaErrorStreamCaptureUnsupported = 900",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "pinned memory", "raw CUDA calls"},
    .features = {"threads"},
    .fixes =
        {{"FixRegisterBefore", "Register host memory before the capture begins, and wait for the thread that does so."},
         {"FixThreadLocalMode",
          "Begin the capture with cudaStreamCaptureModeThreadLocal if another thread may register host memory "
          "meanwhile."},
         {"FixRelaxedMode",
          "Begin the capture with cudaStreamCaptureModeRelaxed if another thread may register host memory meanwhile."},
         {"FixOneLockForBoth",
          "Hold one mutex from the beginning to the end of each capture, and take it around cudaHostRegister()."}},
};

class HostRegisterInOtherThread : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    memory = std::aligned_alloc(kBytes, kBytes);
    ASSERT_NE(memory, nullptr);
  }

  // Registers the program's own memory with CUDA.
  Failure register_memory() { return failure_of_code(cudaHostRegister(memory, kBytes, cudaHostRegisterDefault)); }

  // From start to end between two calls of this thread.
  Failure register_elsewhere() {
    Failure failure;
    std::thread([&] { failure = register_memory(); }).join();
    return failure;
  }

  static constexpr size_t kBytes = 1 << 20;
  void* memory = nullptr;
};

TEST_F(HostRegisterInOtherThread, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(register_elsewhere().text, "ok");
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(HostRegisterInOtherThread, Reproduces) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure first;
  TRIGGER(first = register_elsewhere());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuMemHostRegister*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

// New memory for each capture.
TEST_F(HostRegisterInOtherThread, ReproducesInEachMode) {
  const auto call = [](const Beside&) {
    void* const own = std::aligned_alloc(kBytes, kBytes);
    TRIGGER(return cudaHostRegister(own, kBytes, cudaHostRegisterDefault));
    return cudaSuccess;
  };
  RAISED_BY("cuMemHostRegister*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(HostRegisterInOtherThread, FixRegisterBefore) {
  REMEDY(EXPECT_EQ(register_elsewhere().text, "ok"));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(EXPECT_EQ(register_elsewhere().text, "ok"));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(HostRegisterInOtherThread, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(register_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(HostRegisterInOtherThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(register_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(HostRegisterInOtherThread, FixOneLockForBoth) {
  std::mutex mutex;
  std::unique_lock<std::mutex> capturing(mutex, std::defer_lock);
  REMEDY(capturing.lock());
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure failure;
  std::thread other([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    failure = register_memory();
  });
  WITHOUT_REMEDY(other.join());
  EXPECT_EQ(captured_nodes(stream), 1);
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  REMEDY(capturing.unlock(); other.join());
  EXPECT_EQ(failure.text, "ok");
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
