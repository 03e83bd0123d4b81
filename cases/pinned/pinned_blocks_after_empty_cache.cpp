// emptyCache() leaves pinned host memory where it is.
//
// Device memory and pinned host memory have an allocator each. A freed pinned tensor stays in the cache of the host's
// until that one is emptied, whatever happens to the device's. CUDA itself says whether the address is still pinned.
//
// Alone:  g++ cases/pinned/pinned_blocks_after_empty_cache.cpp $(tools/libtorch --flags) -o pinned_blocks_after_empty_cache

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "emptyCache() frees no pinned host memory",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"capture failures", "Pinned Memory: Forbidden in Global Mode"}},
    .documented = "torch.cuda.empty_cache() only frees device memory, not pinned host memory",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory", "memory pools"},
    .features = {"pinned memory"},
    .effect = Effect::Leaks,
    .fixes =
        {{"FixEmptyTheHostCache",
          "Call torch._C._host_emptyCache(), from 2.5 on, or in C++ at::getHostAllocator(at::kCUDA)->empty_cache(), to "
          "free cached pinned memory."}},
};

namespace {

constexpr int64_t kBytes = int64_t{8} << 20;

std::string kind_of(const void* address) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) return "unknown";
  return attributes.type == cudaMemoryTypeHost ? "pinned" : "not pinned";
}

}  // namespace

class PinnedBlocksAfterEmptyCache : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    at::Tensor host = at::empty({kBytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    address = host.data_ptr();
    ASSERT_EQ(kind_of(address), "pinned");
    host.reset();
  }
  const void* address = nullptr;
};

TEST_F(PinnedBlocksAfterEmptyCache, Control) {
  empty_host_cache();
  EXPECT_EQ(kind_of(address), "not pinned");
}

TEST_F(PinnedBlocksAfterEmptyCache, Reproduces) {
  TRIGGER(c10::cuda::CUDACachingAllocator::emptyCache());
  WITHOUT_TRIGGER(empty_host_cache());
  REPRODUCES(kind_of(address), "pinned", "not pinned");
}

TEST_F(PinnedBlocksAfterEmptyCache, FixEmptyTheHostCache) {
  const at::Tensor data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  WITHOUT_REMEDY(c10::cuda::CUDACachingAllocator::emptyCache());
  REMEDY(empty_host_cache());
  EXPECT_EQ(kind_of(address), "not pinned");
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}
