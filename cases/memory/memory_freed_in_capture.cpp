// Memory that is given back during a capture cannot be used for what the capture allocates next.
//
// A tensor from before the capture lies in the general pool and the capture allocates from the graph's own, and nothing
// is returned to the system while it runs. So a tensor of 64 MiB that is dropped in the capture, for one of 80 MiB,
// makes 144 MiB, where dropping it before makes 80.
//
// Alone:  g++ cases/memory/memory_freed_in_capture.cpp $(ci/libtorch --flags) -o memory_freed_in_capture

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
    .effect = Effect::Leaks,
    .fixes = {{"FixDropBeforeCapture",
               "Delete tensors that are no longer needed and call torch.cuda.empty_cache() before the capture begins."},
              {"FixEmptyCacheAfterCapture",
               "Call torch.cuda.empty_cache() after the capture to give back the memory of older tensors that were "
               "dropped inside it."}},
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
    c10::cuda::CUDACachingAllocator::emptyCache();  // What only earlier work needed does not count.
    before = reserved();
    old = at::empty({64 * kMiB}, bytes);
  }

  // Rounded to the nearest 16 MiB: small segments that a release needs for itself do not count.
  int64_t mebibytes_more() const { return (reserved() - before + 8 * kMiB) / (16 * kMiB) * 16; }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data, old;
  int64_t before = 0;
};

TEST_F(MemoryFreedInCapture, Control) {
  old.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
  const at::Tensor result = at::empty({80 * kMiB}, bytes);
  EXPECT_EQ(mebibytes_more(), 80);
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
  old.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
  graph->capture_begin();
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  result.slice(0, 0, 4).add_(data);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(mebibytes_more(), 80);
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result.slice(0, 0, 4)), std::vector<double>(4, value));
  }
}

TEST_F(MemoryFreedInCapture, FixEmptyCacheAfterCapture) {
  graph->capture_begin();
  old.reset();
  const at::Tensor result = at::zeros({80 * kMiB}, bytes);
  result.slice(0, 0, 4).add_(data);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_EQ(mebibytes_more(), 80);
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result.slice(0, 0, 4)), std::vector<double>(4, value));
  }
}
