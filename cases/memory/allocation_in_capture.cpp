// A tensor made during a capture gets its memory at once, although cudaMalloc is forbidden in a capture.
//
// LibTorch switches the calling thread to relaxed mode around cudaMalloc if the current stream captures, and serves
// the capture from a pool that belongs to the graph. The first request of a size therefore makes a new segment, and
// the second gets the block that the first has given back, at the same address. This works where a bare cudaMalloc
// fails (raw_malloc_in_capture).
//
// No fix is needed: the document says that it works.
//
// Alone:  g++ cases/memory/allocation_in_capture.cpp $(tools/libtorch --flags) -o allocation_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A device allocation during a capture works and takes a segment of its own",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"}},
    .documented = "cudaMalloc is allowed during capture (relaxed mode internally)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools"},
    .effect = Effect::Works,
};

namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

int64_t segments() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).segment[0].current; }

}  // namespace

class AllocationInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::zeros({kBytes}, bytes);
  }
  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data;
};

TEST_F(AllocationInCapture, Control) {
  graph->capture_begin();
  const int64_t before = segments();
  data.add_(1);
  EXPECT_EQ(segments() - before, 0);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(data.slice(0, kBytes - 1)), std::vector<double>{value + 1.0});
  }
}

// The segment belongs to the graph: an allocation after the capture gets other memory.
TEST_F(AllocationInCapture, ControlReplaysKeepTheirMemory) {
  graph->capture_begin();
  const at::Tensor result = data + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  c10::cuda::CUDACachingAllocator::emptyCache();
  const at::Tensor other = at::full({kBytes}, 9, bytes);
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result.slice(0, kBytes - 1)), std::vector<double>{value + 1.0});
  }
  EXPECT_EQ(values(other.slice(0, kBytes - 1)), std::vector<double>{9});
}

TEST_F(AllocationInCapture, ReproducesOnCacheMiss) {
  at::Tensor result;
  graph->capture_begin();
  data.add_(1);
  const int64_t before = segments();
  const Failure first = failure_of([&] { TRIGGER(result = at::empty({kBytes}, bytes)); });
  const int64_t made = segments() - before;
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end) + ", segments " + text_of(made), "ok > active > ok, segments 1",
             "ok > active > ok, segments 0");
}

TEST_F(AllocationInCapture, ReproducesOnCacheHit) {
  graph->capture_begin();
  data.add_(1);
  const int64_t before = segments();
  at::Tensor one = at::empty({kBytes}, bytes), two;
  const void* const address = one.data_ptr();
  TRIGGER(one.reset());
  const Failure first = failure_of([&] { two = at::empty({kBytes}, bytes); });
  const std::string place = two.data_ptr() == address ? "same" : "other";
  const int64_t made = segments() - before;
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end) + ", segments " + text_of(made) + ", " + place + " address",
             "ok > active > ok, segments 1, same address", "ok > active > ok, segments 2, other address");
}
