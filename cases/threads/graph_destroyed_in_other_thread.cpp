// Destroying an instantiated graph in another thread invalidates a capture in global mode.
//
// Destroying an instantiated graph counts as potentially unsafe, so a capture in global mode forbids it to every
// thread. A cache that drops old graphs, or a garbage collector that runs in another thread, does that at any moment.
// On the capturing thread, where LibTorch turns the refusal into a warning, it is in graph_destroyed_in_capture.
// Through LibTorch the other thread's destructor meets the same; its warning goes to that thread, so the variant looks
// at the capture alone.
//
// Alone:  g++ cases/threads/graph_destroyed_in_other_thread.cpp $(tools/libtorch --flags) -o graph_destroyed_in_other_thread

#include <mutex>
#include <thread>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Destroying an instantiated graph in another thread invalidates a capture",
    .sources = {{"upstream", "pytorch#161037"},
                {"upstream", "pytorch#195397"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "operation not permitted when stream is capturing, in the other thread; the capture ends with 901",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "several graphs", "graph updates"},
    .features = {"threads", "several graphs"},
    .fixes =
        {{"FixDestroyAfterTheCapture",
          "Keep old graphs until no capture is open, and call cudaGraphExecDestroy() then."},
         {"FixThreadLocalMode",
          "Begin the capture with cudaStreamCaptureModeThreadLocal if another thread may destroy graphs meanwhile."},
         {"FixRelaxedMode",
          "Begin the capture with cudaStreamCaptureModeRelaxed if another thread may destroy graphs meanwhile."},
         {"FixOneLockForBoth",
          "Hold one mutex from the beginning to the end of each capture, and take it around cudaGraphExecDestroy()."}},
};

class GraphDestroyedInOtherThread : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
    old = instantiated(captured);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  Failure destroy() const { return failure_of_code(cudaGraphExecDestroy(old)); }

  // From start to end between two calls of this thread.
  Failure destroy_elsewhere() {
    Failure failure;
    std::thread([&] { failure = destroy(); }).join();
    return failure;
  }

  cudaGraphExec_t old = nullptr;
};

TEST_F(GraphDestroyedInOtherThread, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(destroy_elsewhere().text, "ok");
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(GraphDestroyedInOtherThread, Reproduces) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure first;
  TRIGGER(first = destroy_elsewhere());
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(GraphDestroyedInOtherThread, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  auto old_graph = make_graph();
  old_graph->capture_begin();
  const at::Tensor unused = data * 2;
  old_graph->capture_end();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  TRIGGER(std::thread([&] { old_graph.reset(); }).join());
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(status + " > " + end.text, "invalidated > 901", "active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(GraphDestroyedInOtherThread, FixDestroyAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(EXPECT_EQ(destroy_elsewhere().text, "ok"));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(EXPECT_EQ(destroy_elsewhere().text, "ok"));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(GraphDestroyedInOtherThread, FixThreadLocalMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(destroy_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(GraphDestroyedInOtherThread, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(destroy_elsewhere().text, "ok");
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(GraphDestroyedInOtherThread, FixOneLockForBoth) {
  std::mutex mutex;
  std::unique_lock<std::mutex> capturing(mutex, std::defer_lock);
  REMEDY(capturing.lock());
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  Failure failure;
  std::thread other([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    failure = destroy();
  });
  WITHOUT_REMEDY(other.join());
  EXPECT_EQ(captured_nodes(stream), 1);
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  REMEDY(capturing.unlock(); other.join());
  EXPECT_EQ(failure.text, "ok");
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
