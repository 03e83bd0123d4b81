// A host branch on a GPU value invalidates the capture that it happens in.
//
// The host can only branch on a value that it has, so the condition is read back, which is item() under another name.
// One variant calls is_nonzero(), the other item<bool>(). Both are warmed up, so that the wait is the only call that
// can fail.
//
// Alone:  g++ cases/sync/host_branch_in_capture.cpp $(tools/libtorch --flags) -o host_branch_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A C++ if on the value of a CUDA tensor during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes =
        {{"FixSelectOnTheGpu",
          "Compute both branches as CUDA tensors and select with torch.where(condition, a, b) instead of a host if."},
         {"FixBranchBetweenTwoGraphs",
          "Capture one graph for each branch, read the condition outside the captures and replay the graph that it "
          "selects."}},
};

class HostBranchInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    (data > 0).is_nonzero();
  }
  at::Tensor data;
};

TEST_F(HostBranchInCapture, Control) {
  const bool positive = (data > 0).is_nonzero();
  graph->capture_begin();
  const at::Tensor result = positive ? data + 1 : data - 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{4});
}

TEST_F(HostBranchInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor condition = data > 0;
  const Failure first = failure_of([&] { TRIGGER(if (condition.is_nonzero()) data.add_(1)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(HostBranchInCapture, ReproducesByItem) {
  graph->capture_begin();
  const at::Tensor condition = data > 0;
  const Failure first = failure_of([&] { TRIGGER(if (condition.item<bool>()) data.add_(1)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(HostBranchInCapture, FixSelectOnTheGpu) {
  graph->capture_begin();
  const at::Tensor condition = data > 0;
  WITHOUT_REMEDY(if (condition.is_nonzero()) data.add_(1));
  const at::Tensor result = at::where(condition, data + 1, data - 1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, -5}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>{value > 0 ? 6.0 : -6.0});
  }
}

TEST_F(HostBranchInCapture, FixBranchBetweenTwoGraphs) {
  const auto other = make_graph();
  graph->capture_begin();
  const at::Tensor more = data + 1;
  WITHOUT_REMEDY((data > 0).is_nonzero());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  other->capture_begin();
  const at::Tensor less = data - 1;
  EXPECT_GT(captured_nodes(stream), 0);
  other->capture_end();
  for (const int value : {5, -5}) {
    data.fill_(value);
    const bool positive = (data > 0).is_nonzero();
    (positive ? graph : other)->replay();
    EXPECT_EQ(values(positive ? more : less), std::vector<double>{value > 0 ? 6.0 : -6.0});
  }
}
