// Slicing by bounds that lie on the GPU invalidates the capture that it happens in.
//
// A slice is a view: its offset is a number that the host keeps. A bound in a CUDA tensor has to be read back for that,
// and narrow() does so silently. Selecting by a computed index keeps the bound on the GPU; the length must be fixed.
//
// Alone:  g++ cases/sync/slice_by_device_value_in_capture.cpp $(tools/libtorch --flags) -o slice_by_device_value_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "narrow() with a start on the GPU reads it back and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixSelectByComputedIndex",
               "Select with index_select(0, start + torch.arange(length, device='cuda')) instead of narrow()."},
              {"FixSliceAfterReplay",
               "Call narrow() on the graph's output after graph.replay(), outside the capture."}},
};

class SliceByDeviceValueInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::arange(10, 16, at::device(at::kCUDA).dtype(at::kFloat));
    start = at::full({}, 1, at::device(at::kCUDA).dtype(at::kLong));
    data.narrow(0, start, 2);
  }
  at::Tensor data, start;
};

TEST_F(SliceByDeviceValueInCapture, Control) {
  const at::Tensor part = data.narrow(0, start, 2);
  graph->capture_begin();
  const at::Tensor result = part * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{22, 24}));
}

TEST_F(SliceByDeviceValueInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor next = start + 1;
  const Failure first = failure_of([&] { TRIGGER(data.narrow(0, next, 2)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(SliceByDeviceValueInCapture, FixSelectByComputedIndex) {
  graph->capture_begin();
  WITHOUT_REMEDY(data.narrow(0, start, 2));
  const at::Tensor places = start + at::arange(2, start.options());
  const at::Tensor result = data.index_select(0, places);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {0, 3}) {
    start.fill_(place);
    graph->replay();
    EXPECT_EQ(values(result), (std::vector<double>{10.0 + place, 11.0 + place}));
  }
}

TEST_F(SliceByDeviceValueInCapture, FixSliceAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.narrow(0, start, 1));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {0, 3}) {
    start.fill_(place);
    data.add_(1);
    graph->replay();
    const double added = place == 0 ? 1 : 2;
    EXPECT_EQ(values(result.narrow(0, start, 1)), std::vector<double>{2 * (10 + place + added)});
  }
}
