// Each body of a conditional node takes memory of its own, also where the bodies run one after the other.
//
// LibTorch captures a body on another stream than the graph around it, and the allocator gives memory that is free
// again to the stream that had it. So what one body has freed, the next one cannot have. torch.cond has two bodies, of
// which a replay runs one: the graph holds the memory of both.
//
// Alone:  g++ cases/memory/branches_cannot_share_memory.cpp $(tools/libtorch --flags) -o branches_cannot_share_memory

#include <string>

#include "fixtures/torch/conditional.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The branches of torch.cond, and conditional nodes in a row, cannot use each other's free memory",
    .sources = {{"upstream", "pytorch#191533"}},
    .documented = "one-off streams for each if node: the blocks that one has freed are not for another stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"conditional nodes", "memory pools"},
    .features = {"conditional nodes"},
    .effect = Effect::Leaks,
    .fixes = {{"FixAllocateBeforeTheBranches",
               "Allocate a buffer before the branches, and let each of them write into it (out=)."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kBodies = 4;

}  // namespace

class BranchesCannotShareMemory : public ConditionalTest {
 protected:
  void SetUp() override {
    ConditionalTest::SetUp();
    if (IsSkipped()) return;
    sum = at::zeros({1}, at::kCUDA);
    sum.add_(at::ones({1}, at::kCUDA));
    sum.zero_();
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  // Adds one by way of 64 MiB, four times. Returns what the graph holds, to the nearest 64 MiB.
  std::string capture(bool has_bodies, bool is_allocated_before = false) {
    graph->capture_begin();
    at::Tensor buffer;
    if (is_allocated_before) buffer = at::empty({16 * kMiB}, at::kCUDA);
    for (int i = 0; i < kBodies; ++i) {
      const auto add = [&] {
        at::Tensor ones = is_allocated_before ? buffer : at::empty({16 * kMiB}, at::kCUDA);
        sum.add_(ones.fill_(1).slice(0, 0, 1));
      };
      if (has_bodies) {
        captured_if(condition, add);
      } else {
        add();
      }
    }
    graph->capture_end();
    graph->replay();
    EXPECT_EQ(values(sum), std::vector<double>(1, kBodies));
    int64_t bytes = 0;
    for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot().segments) {
      const auto [own, shared] = segment.owner_private_pool_id;
      if (own != 0 || shared != 0) bytes += static_cast<int64_t>(segment.total_size);
    }
    return text_of((bytes + 32 * kMiB) / (64 * kMiB) * 64) + " MiB";
  }

  at::Tensor sum;
};

TEST_F(BranchesCannotShareMemory, Control) { EXPECT_EQ(capture(/*has_bodies=*/false), "64 MiB"); }

TEST_F(BranchesCannotShareMemory, Reproduces) {
  bool has_bodies = false;
  TRIGGER(has_bodies = true);
  REPRODUCES(capture(has_bodies), "256 MiB", "64 MiB");
}

TEST_F(BranchesCannotShareMemory, FixAllocateBeforeTheBranches) {
  bool is_allocated_before = false;
  REMEDY(is_allocated_before = true);
  EXPECT_EQ(capture(/*has_bodies=*/true, is_allocated_before), "64 MiB");
}
