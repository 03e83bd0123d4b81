// A pinned buffer that a graph copies from is reused as soon as its tensor dies, and a replay reads what the new owner
// has written.
//
// The graph has the buffer's address and nothing keeps the buffer. When the tensor dies after the capture, the host
// cache waits for the streams that used it, which have only captured, and gives the block to the next request of the
// size. Nothing fails. From 2.11 on a block that was allocated inside the capture is never reused; one that was
// allocated before the capture is, in every release.
//
// Alone:  g++ cases/pinned/pinned_block_recycled_under_graph.cpp $(tools/libtorch --flags) -o pinned_block_recycled_under_graph

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A replay reads a pinned buffer that has a new owner by then",
    .sources = {{"upstream", "pytorch#161583"}, {"upstream", "pytorch#167507"}},
    .documented = "the block may be recycled while the graph still reads it (silent)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"pinned memory"},
    .features = {"pinned memory"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepTheBuffer",
               "Keep a reference to the pinned tensor for as long as a graph that copies from it may be replayed."}},
};

namespace {
const at::TensorOptions kPinned = at::TensorOptions().dtype(at::kFloat).pinned_memory(true);
}  // namespace

class PinnedBlockRecycledUnderGraph : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    out = at::zeros({1}, at::kCUDA);
    at::empty({1}, kPinned);  // Freed at once: the allocation inside the capture finds this block in the cache.
  }
  at::Tensor out, source, other;
};

TEST_F(PinnedBlockRecycledUnderGraph, ControlDroppedAfterTheReplay) {
  source = at::full({1}, 3, kPinned);
  graph->capture_begin();
  out.copy_(source, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    source.fill_(value);
    graph->replay();
    EXPECT_EQ(values(out), std::vector<double>{1.0 * value});
  }
  source.reset();
  other = at::full({1}, 99, kPinned);
  EXPECT_EQ(values(out), std::vector<double>{7});
}

TEST_F(PinnedBlockRecycledUnderGraph, ReproducesAllocatedInside) {
  graph->capture_begin();
  source = at::full({1}, 3, kPinned);
  out.copy_(source, /*non_blocking=*/true);
  graph->capture_end();
  const void* const address = source.data_ptr();
  source.reset();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  TRIGGER(other = at::full({1}, 99, kPinned));
  record("address", other.defined() && other.data_ptr() == address ? "the same" : "another");
  graph->replay();
  REPRODUCES(values(out), std::vector<double>{99}, std::vector<double>{3});
}

TEST_F(PinnedBlockRecycledUnderGraph, ReproducesAllocatedBefore) {
  source = at::full({1}, 3, kPinned);
  graph->capture_begin();
  out.copy_(source, /*non_blocking=*/true);
  graph->capture_end();
  const void* const address = source.data_ptr();
  source.reset();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  TRIGGER(other = at::full({1}, 99, kPinned));
  record("address", other.defined() && other.data_ptr() == address ? "the same" : "another");
  graph->replay();
  REPRODUCES(values(out), std::vector<double>{99}, std::vector<double>{3});
}

TEST_F(PinnedBlockRecycledUnderGraph, FixKeepTheBuffer) {
  source = at::full({1}, 3, kPinned);
  graph->capture_begin();
  out.copy_(source, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  at::Tensor kept;
  REMEDY(kept = source);
  source.reset();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  other = at::full({1}, 99, kPinned);
  for (const int value : {5, 7}) {
    REMEDY(kept.fill_(value));
    graph->replay();
    EXPECT_EQ(values(out), std::vector<double>{1.0 * value});
  }
}
