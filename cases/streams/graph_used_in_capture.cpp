// Launching or uploading an instantiated graph on a capturing stream is refused, and so is making or destroying one.
//
// A launch is no node: a graph that is to run inside another goes in as a child node, or runs before or after it.
// CUDA refuses launch and upload on the capturing stream in every capture mode. Instantiating a graph and destroying an
// instantiated one allocate and free memory, so they count as potentially unsafe: a global capture forbids them to
// every thread, a thread-local one to its own, a relaxed one to nobody. How each call ends in each mode is one line.
// Through LibTorch the destruction is in graph_destroyed_in_capture, another thread's in
// graph_destroyed_in_other_thread.
//
// Alone:  g++ cases/streams/graph_used_in_capture.cpp $(tools/libtorch --flags) -o graph_used_in_capture

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Launching, uploading, instantiating or destroying a graph invalidates a capture",
    .sources = {{"CUDA programming guide", "Prohibited and Unhandled Operations"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "not documented call by call; cudaErrorStreamCaptureUnsupported (900) in the modes that forbid it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "several graphs", "graph updates", "raw CUDA calls"},
    .features = {"several graphs"},
    .fixes = {{"FixLaunchAfterTheCapture",
               "Launch the inner graph before or after the outer one, on the same stream, and not inside its capture."},
              {"FixChildNode",
               "Add the inner graph to the outer one with cudaGraphAddChildGraphNode() after the capture has ended."},
              {"FixInstantiateAfterTheCapture",
               "Call cudaGraphInstantiate() before the capture begins or after it has ended."},
              {"FixInstantiateInRelaxedMode",
               "Begin the capture with cudaStreamCaptureModeRelaxed if a graph must be instantiated meanwhile."}},
};

class GraphUsedInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&further, 1));
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(further, out, 1, cudaMemcpyDeviceToDevice, stream));
    ASSERT_CUDA(cudaStreamEndCapture(stream, &inner));
    inner_exec = instantiated(inner);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  int left_in_further() const {
    unsigned char left = 0;
    EXPECT_EQ(cudaMemcpy(&left, further, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    return left;
  }

  void* further = nullptr;  // The inner graph copies `out` to it.
  cudaGraph_t inner = nullptr;
  cudaGraphExec_t inner_exec = nullptr;
};

TEST_F(GraphUsedInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
  ASSERT_CUDA(cudaGraphUpload(inner_exec, stream));
  ASSERT_CUDA(cudaGraphLaunch(inner_exec, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(left_in_further(), 5);
  ASSERT_CUDA(cudaGraphExecDestroy(inner_exec));
}

TEST_F(GraphUsedInCapture, ReproducesLaunch) {
  const auto call = [&](const Beside& its) {
    TRIGGER(return cudaGraphLaunch(inner_exec, its.capturing));
    return cudaSuccess;
  };
  RAISED_BY("cuGraphLaunch*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(GraphUsedInCapture, ReproducesUpload) {
  const auto call = [&](const Beside& its) {
    TRIGGER(return cudaGraphUpload(inner_exec, its.capturing));
    return cudaSuccess;
  };
  RAISED_BY("cuGraphUpload*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(GraphUsedInCapture, ReproducesInstantiate) {
  const auto call = [&](const Beside&) {
    cudaGraphExec_t exec = nullptr;
    TRIGGER(return cudaGraphInstantiateWithFlags(&exec, inner, 0));
    return cudaSuccess;
  };
  RAISED_BY("cuGraphInstantiate*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(GraphUsedInCapture, ReproducesDestroy) {
  std::vector<cudaGraphExec_t> left;  // One for each capture, made before any of them.
  for (int i = 0; i < kCaptures; ++i) left.push_back(instantiated(inner));
  const auto call = [&](const Beside&) {
    const cudaGraphExec_t exec = left.back();
    left.pop_back();
    TRIGGER(return cudaGraphExecDestroy(exec));
    return cudaSuccess;
  };
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(GraphUsedInCapture, FixLaunchAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaGraphLaunch(inner_exec, stream)));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    REMEDY(ASSERT_CUDA(cudaGraphLaunch(inner_exec, stream)));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(left_in_further(), value);
  }
}

TEST_F(GraphUsedInCapture, FixChildNode) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaGraphLaunch(inner_exec, stream)));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY({
    cudaGraphNode_t copy = nullptr, child = nullptr;
    size_t nodes = 1;
    ASSERT_CUDA(cudaGraphGetNodes(captured, &copy, &nodes));
    ASSERT_CUDA(cudaGraphAddChildGraphNode(&child, captured, &copy, 1, inner));
  });
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    EXPECT_EQ(left_in_further(), value);
  }
}

TEST_F(GraphUsedInCapture, FixInstantiateAfterTheCapture) {
  cudaGraphExec_t another = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(another = instantiated(inner));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(another = instantiated(inner));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    ASSERT_CUDA(cudaGraphLaunch(another, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(left_in_further(), value);
  }
}

TEST_F(GraphUsedInCapture, FixInstantiateInRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  const cudaGraphExec_t another = instantiated(inner);
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    ASSERT_CUDA(cudaGraphLaunch(another, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(left_in_further(), value);
  }
}
