// After a failed capture the allocator acts for the rest of the process as if a capture were under way.
//
// capture_begin starts routing allocations to the graph's private pool, and capture_end stops it, but only after CUDA
// has ended the capture without an error; after a failed capture the routing stays. emptyCache then either asserts that
// nothing captures, or silently skips its work, and memory that nobody uses is never given back. The failed capture
// allocates nothing here, and the block to be given back is allocated and freed afterwards, outside any capture.
//
// No fix is documented: only a release that ends the routing helps.
//
// Alone:  g++ cases/aftermath/empty_cache_after_failed_capture.cpp $(tools/libtorch --flags) -o empty_cache_after_failed_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "After a failed capture emptyCache asserts, or gives nothing back, for the rest of the process",
    .sources = {{"upstream", "pytorch#158152"}, {"upstream", "pytorch#180395"}},
    .documented = "captures_underway.empty() INTERNAL ASSERT FAILED, or reserved bytes that never shrink",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "memory pools"},
    .features = {"failed captures"},
    .effects = {{"ReproducesMemoryKept", Effect::Leaks}},
};

constexpr int64_t kBytes = int64_t{64} << 20;

class EmptyCacheAfterFailedCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  static int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

  at::Tensor x;
};

TEST_F(EmptyCacheAfterFailedCapture, Control) {
  graph->capture_begin();
  x.add_(1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  const int64_t before = reserved();
  at::empty({kBytes}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte)).reset();
  EXPECT_EQ(reserved(), before + kBytes);
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_LE(reserved(), before);
}

TEST_F(EmptyCacheAfterFailedCapture, Reproduces) {
  graph->capture_begin();
  x.add_(1);
  TRIGGER(failure_of([&] { stream.synchronize(); }));
  failure_of([&] { graph->capture_end(); });
  const Failure trim = failure_of([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
  REPRODUCES(trim.text, "assert \"captures_underway.empty() INTERNAL ASSERT FAILED\"", "ok");
}

TEST_F(EmptyCacheAfterFailedCapture, ReproducesMemoryKept) {
  graph->capture_begin();
  x.add_(1);
  TRIGGER(failure_of([&] { stream.synchronize(); }));
  failure_of([&] { graph->capture_end(); });
  const int64_t before = reserved();
  at::empty({kBytes}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte)).reset();
  failure_of([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
  REPRODUCES(reserved() > before ? "kept" : "given back", "kept", "given back");
}
