// repeat_interleave() without an output size invalidates the capture that it happens in.
//
// The length of its result is the sum of the repeats, which lie on the GPU. Unless the caller states the sum, item()
// reads it back. A caller who states it gives up the check that it is right, and the call can be captured.
//
// Alone:  g++ cases/sync/repeat_interleave_in_capture.cpp $(tools/libtorch --flags) -o repeat_interleave_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "repeat_interleave() without output_size reads the size back and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"PyTorch documentation", "torch.repeat_interleave"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixStateTheOutputSize",
               "Pass output_size to repeat_interleave() so that it does not read the size back."},
              {"FixRepeatByAHostNumber",
               "Pass repeat_interleave() a plain int as repeats where all elements are repeated equally often, not a "
               "CUDA tensor."}},
};

class RepeatInterleaveInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({3.0f, 4.0f}, at::kCUDA);
    repeats = at::tensor({int64_t{2}, int64_t{1}}, at::device(at::kCUDA).dtype(at::kLong));
    data.repeat_interleave(repeats, /*dim=*/0);
  }
  at::Tensor data, repeats;
};

TEST_F(RepeatInterleaveInCapture, Control) {
  const at::Tensor repeated = data.repeat_interleave(repeats, /*dim=*/0);
  graph->capture_begin();
  const at::Tensor result = repeated * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{6, 6, 8}));
}

TEST_F(RepeatInterleaveInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(doubled.repeat_interleave(repeats, /*dim=*/0)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RepeatInterleaveInCapture, FixStateTheOutputSize) {
  graph->capture_begin();
  WITHOUT_REMEDY(data.repeat_interleave(repeats, /*dim=*/0));
  const at::Tensor result = data.repeat_interleave(repeats, /*dim=*/0, /*output_size=*/3);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int64_t first : {2, 1}) {
    repeats.copy_(at::tensor({first, 3 - first}));
    graph->replay();
    EXPECT_EQ(values(result), (std::vector<double>{3, first == 2 ? 3.0 : 4.0, 4}));
  }
}

TEST_F(RepeatInterleaveInCapture, FixRepeatByAHostNumber) {
  graph->capture_begin();
  WITHOUT_REMEDY(data.repeat_interleave(repeats, /*dim=*/0));
  const at::Tensor result = data.repeat_interleave(int64_t{2}, /*dim=*/0);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const float value : {5.0f, 7.0f}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, value));
  }
}
