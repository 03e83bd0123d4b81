// Selecting elements by a boolean mask invalidates the capture that it happens in.
//
// How many elements a mask selects is known only on the GPU, and the result cannot be allocated without that number.
// Both indexing by a mask and masked_select() turn the mask into indices with nonzero(), which reads the number back.
//
// Alone:  g++ cases/sync/boolean_index_in_capture.cpp $(tools/libtorch --flags) -o boolean_index_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Selection by a boolean mask during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"},
                {"upstream", "pytorch#78549"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes =
        {{"FixKeepTheShape",
          "Use torch.where(mask, x, torch.zeros_like(x)) in place of x[mask], so that the result keeps its shape."},
         {"FixSelectAfterReplay",
          "Index the graph's output with the boolean mask after graph.replay(), outside the capture."}},
};

class BooleanIndexInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({1.0f, -2.0f, 3.0f}, at::kCUDA);
    data.index({data > 0});
    at::masked_select(data, data > 0);
  }
  at::Tensor data;
};

TEST_F(BooleanIndexInCapture, Control) {
  const at::Tensor positive = data.index({data > 0});
  graph->capture_begin();
  const at::Tensor result = positive * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{2, 6}));
}

TEST_F(BooleanIndexInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor mask = data > 0;
  const Failure first = failure_of([&] { TRIGGER(data.index({mask})); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(BooleanIndexInCapture, ReproducesByMaskedSelect) {
  graph->capture_begin();
  const at::Tensor mask = data > 0;
  const Failure first = failure_of([&] { TRIGGER(at::masked_select(data, mask)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(BooleanIndexInCapture, FixKeepTheShape) {
  graph->capture_begin();
  const at::Tensor mask = data > 0;
  WITHOUT_REMEDY(data.index({mask}));
  const at::Tensor result = at::where(mask, data, at::zeros_like(data));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const float value : {5.0f, -5.0f}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(3, value > 0 ? 5 : 0));
  }
}

TEST_F(BooleanIndexInCapture, FixSelectAfterReplay) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  WITHOUT_REMEDY(doubled.index({doubled > 0}));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const float value : {5.0f, 7.0f}) {
    data.slice(0, 0, 1).fill_(value);
    graph->replay();
    EXPECT_EQ(values(doubled.index({doubled > 0})), (std::vector<double>{2 * value, 6}));
  }
}
