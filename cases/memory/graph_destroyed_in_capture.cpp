// Destroying an instantiated graph while another is captured invalidates that capture, with no more than a warning.
//
// Destroying an instantiated graph counts as unsafe while a capture in global mode is open. LibTorch must not throw
// from a destructor, so it turns CUDA's refusal into a warning, and a capture that had nothing to do with the graph is
// invalid from then on. It happens to a program that assigns a new graph to the variable of an old one during a
// capture.
//
// Alone:  g++ cases/memory/graph_destroyed_in_capture.cpp $(tools/libtorch --flags) -o graph_destroyed_in_capture

#include "fixtures/cuda/runtime.h"
#include "fixtures/torch/warnings.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Destroying an instantiated graph inside another capture invalidates the capture",
    .sources = {{"upstream", "pytorch#161037"}, {"upstream", "pytorch#195397"}},
    .documented = "Warning: operation not permitted when stream is capturing; capture_end 901",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "several graphs", "graph updates"},
    .fixes = {{"FixDestroyAfterTheCapture",
               "Keep the old CUDAGraph until the new capture has ended, and only then delete or replace it."},
              {"FixRelaxedMode",
               "Capture with capture_error_mode='relaxed' if an old CUDAGraph may be destroyed meanwhile."}},
};

constexpr char kWarning[] = "operation not permitted when stream is capturing";

class GraphDestroyedInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    old = make_graph();
    old->capture_begin();
    x.add_(1);
    old->capture_end();
    old->replay();
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void expect_doubled_by_replays(const at::Tensor& y) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
    }
  }

  at::Tensor x;
  std::unique_ptr<Graph> old;
};

TEST_F(GraphDestroyedInCapture, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_doubled_by_replays(y);
}

TEST_F(GraphDestroyedInCapture, Reproduces) {
  const Warnings warnings;
  graph->capture_begin();
  const at::Tensor y = x * 2;
  TRIGGER(old.reset());
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(warnings.first_with(kWarning) + " > " + status + " > " + end.text,
             "*operation not permitted when stream is capturing* > invalidated > 901", "no warning > active > ok");
}

// Our own addition: the same without LibTorch.
TEST_F(GraphDestroyedInCapture, ReproducesInTheRuntime) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = failure_of_code(cudaGraphExecDestroy(exec)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(GraphDestroyedInCapture, FixDestroyAfterTheCapture) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  WITHOUT_REMEDY(old.reset());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  REMEDY(old.reset());
  expect_doubled_by_replays(y);
}

TEST_F(GraphDestroyedInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor y = x * 2;
  old.reset();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_doubled_by_replays(y);
}
