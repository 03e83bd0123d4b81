// Memory that is given back during a capture cannot be used for what the capture allocates next.
//
// A tensor from before the capture lies in the general pool, the capture allocates from the graph's own, and nothing is
// returned to the system while the capture is open. A tensor of 64 MiB that is dropped in the capture to make room for
// one of 80 MiB therefore leads to 144 MiB; if it is dropped before the capture and the cache is emptied, 80 MiB
// suffice. Without emptyCache() eager code needs 144 MiB, too, since a cached block of 64 MiB is too small; but eager
// code can empty the cache, and a capture cannot (empty_cache_in_capture).
//
// Alone:  g++ cases/memory/memory_freed_in_capture.cpp $(tools/libtorch --flags) -o memory_freed_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A tensor dropped during a capture still occupies its memory beside the new one",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"CUDA graph guide", "Memory Issues"}},
    .documented = "cudaFree is intentionally skipped during capture: 12 instead of 8 GB",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools"},
    .effect = Effect::Leaks,
    .fixes = {{"FixDropBeforeCapture",
               "Delete tensors that are no longer needed and call torch.cuda.empty_cache() before the capture begins."},
              {"FixEmptyCacheAfterCapture",
               "Call torch.cuda.empty_cache() after the capture to free the memory of older tensors that were dropped "
               "inside it."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class MemoryFreedInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, bytes);
    c10::cuda::CUDACachingAllocator::emptyCache();  // What only earlier work needed is not counted.
    before = reserved();
    old = at::empty({64 * kMiB}, bytes);
  }

  // Rounded to the nearest 16 MiB: small segments that a release needs for itself are not counted.
  int64_t mebibytes_more() const { return (reserved() - before + 8 * kMiB) / (16 * kMiB) * 16; }

  void replay_twice(const at::Tensor& result) {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result.slice(0, 0, 4)), std::vector<double>(4, value));
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data, old;
  int64_t before = 0;
};

TEST_F(MemoryFreedInCapture, Control) {
  old.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
  graph->capture_begin();
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  result.slice(0, 0, 4).add_(data);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(mebibytes_more(), 80);
  replay_twice(result);
}

TEST_F(MemoryFreedInCapture, Reproduces) {
  WITHOUT_TRIGGER(old.reset(), c10::cuda::CUDACachingAllocator::emptyCache());
  graph->capture_begin();
  data.add_(1);
  TRIGGER(old.reset());
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  graph->capture_end();
  REPRODUCES(text_of(mebibytes_more()) + " MiB", "144 MiB", "80 MiB");
}

TEST_F(MemoryFreedInCapture, FixDropBeforeCapture) {
  REMEDY(old.reset(), c10::cuda::CUDACachingAllocator::emptyCache());
  graph->capture_begin();
  WITHOUT_REMEDY(old.reset());
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  result.slice(0, 0, 4).add_(data);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(mebibytes_more(), 80);
  replay_twice(result);
}

TEST_F(MemoryFreedInCapture, FixEmptyCacheAfterCapture) {
  graph->capture_begin();
  old.reset();
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  result.slice(0, 0, 4).add_(data);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  REMEDY(c10::cuda::CUDACachingAllocator::emptyCache());
  EXPECT_EQ(mebibytes_more(), 80);
  replay_twice(result);
}
