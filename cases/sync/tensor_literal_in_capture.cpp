// Making a CUDA tensor from host values invalidates the capture that it happens in.
//
// The values are written to a pageable host tensor first and then copied with a wait. A tensor of the same content that
// a kernel fills needs no copy, so it can be captured.
//
// Alone:  g++ cases/sync/tensor_literal_in_capture.cpp $(tools/libtorch --flags) -o tensor_literal_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A CUDA tensor made from host values during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixFillOnTheGpu",
               "Make the constant with torch.full(..., device='cuda'), which fills it on the GPU, instead of "
               "torch.tensor()."},
              {"FixMakeBeforeCapture",
               "Call torch.tensor(..., device='cuda') before the capture and only use the tensor inside it."}},
};

class TensorLiteralInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({2}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    at::tensor(2.0f, at::kCUDA);
  }
  at::Tensor data;
};

TEST_F(TensorLiteralInCapture, Control) {
  const at::Tensor factor = at::tensor(2.0f, at::kCUDA);
  graph->capture_begin();
  const at::Tensor result = data * factor;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(2, 6));
}

TEST_F(TensorLiteralInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(doubled.mul(at::tensor(2.0f, at::kCUDA))); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(TensorLiteralInCapture, ReproducesWithList) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(doubled.mul(at::tensor({2.0f, 4.0f}, at::kCUDA))); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(TensorLiteralInCapture, FixFillOnTheGpu) {
  graph->capture_begin();
  WITHOUT_REMEDY(at::tensor(2.0f, at::kCUDA));
  const at::Tensor factor = at::full({}, 2, data.options());
  const at::Tensor result = data * factor;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(2, 2 * value));
  }
}

TEST_F(TensorLiteralInCapture, FixMakeBeforeCapture) {
  at::Tensor factors;
  REMEDY(factors = at::tensor({2.0f, 4.0f}, at::kCUDA));
  graph->capture_begin();
  WITHOUT_REMEDY(factors = at::tensor({2.0f, 4.0f}, at::kCUDA));
  const at::Tensor result = data * factors;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), (std::vector<double>{2.0 * value, 4.0 * value}));
  }
}
