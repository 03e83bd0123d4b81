// Memory that a capture allocated stays reserved as long as its graph lives, even if the program holds no tensor of it.
//
// The graph's kernels have its addresses, so the allocator may not reuse the memory. A replay still works after all
// tensors of the capture are gone and memory of their size has been allocated again. emptyCache() does not return the
// memory either; only resetting the graph does.
//
// Alone:  g++ cases/memory/graph_memory_kept_after_release.cpp $(tools/libtorch --flags) -o graph_memory_kept_after_release

#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "What a capture allocated stays reserved until its graph is reset, even if no tensor holds it",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"}},
    .documented = "addresses allocated within the graph's private memory pool remain stable across replays",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools"},
    .effect = Effect::Leaks,
    .fixes = {{"FixResetTheGraph",
               "Call reset() on a graph that is no longer replayed, or drop it, and then torch.cuda.empty_cache()."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class GraphMemoryKeptAfterRelease : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, bytes);
    copy = at::empty({64 * kMiB}, bytes);
    c10::cuda::CUDACachingAllocator::emptyCache();
    before = reserved();
  }

  // `copy` gets what the graph computes in 64 MiB of its own, which no tensor holds afterwards.
  void capture() {
    graph->capture_begin();
    const at::Tensor own = at::zeros({64 * kMiB}, bytes);
    own.add_(data);
    copy.copy_(own);
    address = own.data_ptr();
    graph->capture_end();
  }

  // Rounded to the nearest 16 MiB: small segments that a release needs for itself are not counted.
  std::string more() const {
    c10::cuda::CUDACachingAllocator::emptyCache();
    return std::to_string((reserved() - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB";
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data, copy;
  void* address = nullptr;
  int64_t before = 0;
};

// New memory of the same size lies elsewhere, and writing it does not change the replays.
TEST_F(GraphMemoryKeptAfterRelease, ControlReplaysKeepTheirMemory) {
  capture();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(at::full({64 * kMiB}, 9, bytes));
    EXPECT_NE(others.back().data_ptr(), address);
  }
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(copy.min().item<int>(), value);
    EXPECT_EQ(copy.max().item<int>(), value);
  }
  for (const at::Tensor& other : others) EXPECT_EQ(other.min().item<int>(), 9);
}

TEST_F(GraphMemoryKeptAfterRelease, Reproduces) {
  TRIGGER(capture());
  REPRODUCES(more(), "64 MiB", "0 MiB");
}

TEST_F(GraphMemoryKeptAfterRelease, FixResetTheGraph) {
  capture();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(copy.max().item<int>(), value);
  }
  REMEDY(graph->reset());
  EXPECT_EQ(more(), "0 MiB");
}
