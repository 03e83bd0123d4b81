// unique() invalidates the capture that it happens in.
//
// The number of distinct values is computed on the GPU and is the size of the result, so the host reads it back in the
// middle of the operation. A form of fixed size needs no such number: the sorted values, and for each of them but the
// first a flag that is set where it differs from the one before.
//
// Alone:  g++ cases/sync/unique_in_capture.cpp $(tools/libtorch --flags) -o unique_in_capture

#include <tuple>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "unique() reads its result size back and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}, {"upstream", "pytorch#196133"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixFlagTheFirstOfEach",
               "Sort with torch.sort() and compare neighbours with torch.ne() to flag and count distinct values at a "
               "fixed shape."},
              {"FixCallAfterReplay",
               "Call torch.unique() on the graph's output after graph.replay(), outside the capture."}},
};

class UniqueInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({3.0f, 1.0f, 3.0f, 1.0f}, at::kCUDA);
    at::_unique2(data);
    at::sort(data);
  }
  at::Tensor data;
};

TEST_F(UniqueInCapture, Control) {
  const at::Tensor distinct = std::get<0>(at::_unique2(data));
  graph->capture_begin();
  const at::Tensor result = distinct * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{2, 6}));
}

TEST_F(UniqueInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(at::_unique2(result)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(UniqueInCapture, FixFlagTheFirstOfEach) {
  graph->capture_begin();
  WITHOUT_REMEDY(at::_unique2(data));
  const at::Tensor sorted = std::get<0>(at::sort(data));
  const at::Tensor changes = at::ne(sorted.slice(0, 1), sorted.slice(0, 0, 3));
  const at::Tensor count = changes.sum() + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const float value : {1.0f, 9.0f}) {
    data.slice(0, 2, 3).fill_(value);
    graph->replay();
    EXPECT_EQ(values(changes), (std::vector<double>{0, value == 1 ? 0.0 : 1.0, 1}));
    EXPECT_EQ(values(count), std::vector<double>{value == 1 ? 2.0 : 3.0});
  }
}

TEST_F(UniqueInCapture, FixCallAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(at::_unique2(result));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const float value : {5.0f, 7.0f}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(std::get<0>(at::_unique2(result))), std::vector<double>{2 * value});
  }
}
