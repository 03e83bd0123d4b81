// nonzero() invalidates the capture that it happens in.
//
// The shape of its result is the number of elements that are not zero. That number is computed on the GPU and read back
// before the result can be allocated, and the read-back waits. A first call outside the capture warms the pinned memory
// that the number is copied into.
//
// Alone:  g++ cases/sync/nonzero_in_capture.cpp $(tools/libtorch --flags) -o nonzero_in_capture

#include <ATen/core/dispatch/Dispatcher.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "nonzero() reads its result size back and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"},
                {"PyTorch documentation", "torch.nonzero"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixCallAfterReplay", "Call nonzero() on the graph's output after graph.replay(), outside the capture."},
              {"FixFixedSize",
               "Call torch.nonzero_static() with a fixed size and fill_value, in releases that have it for CUDA."},
              {"FixMaskOnTheGpu",
               "Compute with the boolean mask x != 0 on the GPU instead of turning it into indices with nonzero()."}},
};

class NonzeroInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({0.0f, 4.0f, 0.0f, 5.0f}, at::kCUDA);
    at::nonzero(data);
  }
  at::Tensor data;
};

TEST_F(NonzeroInCapture, Control) {
  const at::Tensor where = at::nonzero(data).view({-1});
  graph->capture_begin();
  const at::Tensor result = data.index_select(0, where);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{4, 5}));
}

TEST_F(NonzeroInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(at::nonzero(result)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(NonzeroInCapture, FixCallAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(at::nonzero(result));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {1, 3}) {
    data.zero_();
    data.slice(0, place, place + 1).fill_(7);
    graph->replay();
    EXPECT_EQ(values(at::nonzero(result)), std::vector<double>{1.0 * place});
  }
}

TEST_F(NonzeroInCapture, FixFixedSize) {
  const auto op = c10::Dispatcher::singleton().findOp({"aten::nonzero_static", ""});
  if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) NOT_APPLICABLE("no nonzero_static on CUDA");
  at::nonzero_static(data, 4, -1);
  graph->capture_begin();
  WITHOUT_REMEDY(at::nonzero(data));
  const at::Tensor where = at::nonzero_static(data, 4, -1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {1, 3}) {
    data.zero_();
    data.slice(0, place, place + 1).fill_(7);
    graph->replay();
    EXPECT_EQ(values(where.view({-1})), (std::vector<double>{1.0 * place, -1, -1, -1}));
  }
}

TEST_F(NonzeroInCapture, FixMaskOnTheGpu) {
  graph->capture_begin();
  WITHOUT_REMEDY(at::nonzero(data));
  const at::Tensor mask = data != 0;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {1, 3}) {
    data.zero_();
    data.slice(0, place, place + 1).fill_(7);
    graph->replay();
    EXPECT_EQ(values(mask), (std::vector<double>{0, place == 1 ? 1.0 : 0.0, 0, place == 3 ? 1.0 : 0.0}));
  }
}
