// Running out of device memory during a capture invalidates it if max_split_size is set.
//
// Without that option the allocator raises an out-of-memory error and the capture stays valid. With it, the allocator
// first tries to free large cached blocks of the pool that it serves from, without asking whether that pool belongs to
// a capture, and cudaFree invalidates the capture. The limit leaves room for 96 MiB: a block of 64 MiB is made and
// given back inside the capture, so that 80 MiB fit neither beside it nor into it. The option must be in the
// environment before CUDA starts.
//
// Alone:  g++ cases/memory/out_of_memory_with_max_split_size.cpp $(tools/libtorch --flags) -o out_of_memory_with_max_split_size

#include <cstdlib>
#include <string>
#include <utility>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An out-of-memory retry with max_split_size frees memory in a capture and invalidates it",
    .sources = {{"upstream", "pytorch#159594"},
                {"capture failures", "Device Memory: Allocation Allowed, Free Skipped"}},
    .documented = "cudaFree on the out-of-memory path during capture: 901 instead of a clean out-of-memory error",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"memory pools", "max_split_size"},
    .features = {"max_split_size"},
    .fixes = {{"FixAllocateTheLargestFirst",
               "Allocate and drop the largest tensor first in the capture, so that smaller ones fit into its block and "
               "memory suffices."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr const char* kSettings = "max_split_size_mb:32";

}  // namespace

class OutOfMemoryWithMaxSplitSize : public GpuTest {
 protected:
  void SetUp() override {
    TRIGGER(setenv("PYTORCH_CUDA_ALLOC_CONF", kSettings, 1), setenv("PYTORCH_ALLOC_CONF", kSettings, 1));
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    if (trigger_on()) {
      ASSERT_EQ(stats.max_split_size, 32 * kMiB);
    }
    size_t free = 0, total = 0;
    ASSERT_CUDA(cudaMemGetInfo(&free, &total));
    const double limit = static_cast<double>(stats.reserved_bytes[0].current + 96 * kMiB);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(limit / static_cast<double>(total), 0);
  }

  at::Tensor mebibytes(int64_t count) { return at::zeros({count * kMiB}, at::device(at::kCUDA).dtype(at::kByte)); }

  at::Tensor data;
};

// The option is on, and memory suffices.
TEST_F(OutOfMemoryWithMaxSplitSize, Control) {
  graph->capture_begin();
  mebibytes(64).reset();
  const at::Tensor result = mebibytes(24).slice(0, 0, 4) + data;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 3));
}

TEST_F(OutOfMemoryWithMaxSplitSize, Reproduces) {
  graph->capture_begin();
  mebibytes(64).reset();
  const Failure first = failure_of([&] { mebibytes(80); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "oom > active > ok");
}

TEST_F(OutOfMemoryWithMaxSplitSize, FixAllocateTheLargestFirst) {
  int64_t first = 64, second = 80;
  REMEDY(std::swap(first, second));
  graph->capture_begin();
  mebibytes(first).reset();
  const at::Tensor result = mebibytes(second).slice(0, 0, 4) + data;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, value));
  }
}
