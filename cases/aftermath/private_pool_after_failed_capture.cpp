// Memory that a failed capture allocated is lost, even after the graph and its tensors are gone.
//
// Blocks of a capture come from the graph's private pool, and resetting the graph releases the pool. Releases up to
// 2.12 release it only for a graph whose capture succeeded, so the segments of a failed one are never unmapped,
// whatever the program frees. The test compares what the process has reserved before the capture with what is left once
// everything is freed.
//
// No fix is documented: only a release that gives the pool back helps.
//
// Alone:  g++ cases/aftermath/private_pool_after_failed_capture.cpp $(tools/libtorch --flags) -o private_pool_after_failed_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Memory that a failed capture allocated is lost after its graph and tensors are gone",
    .sources = {{"upstream", "pytorch#190348"}, {"upstream", "pytorch#180395"}},
    .documented = "the pool of a failed capture is not released by reset",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "memory pools"},
    .features = {"failed captures"},
    .effect = Effect::Leaks,
};

constexpr int64_t kBytes = int64_t{64} << 20;

class PrivatePoolAfterFailedCapture : public GpuTest {
 protected:
  static int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

  static at::Tensor big_block() { return at::zeros({kBytes}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte)); }
};

TEST_F(PrivatePoolAfterFailedCapture, Control) {
  const int64_t before = reserved();
  graph->capture_begin();
  at::Tensor block = big_block();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_GE(reserved(), before + kBytes);
  block.reset();
  graph.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_LT(reserved(), before + kBytes);
}

TEST_F(PrivatePoolAfterFailedCapture, Reproduces) {
  const int64_t before = reserved();
  graph->capture_begin();
  at::Tensor block = big_block();
  TRIGGER(failure_of([&] { stream.synchronize(); }));
  failure_of([&] { graph->capture_end(); });
  block.reset();
  graph.reset();
  failure_of([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
  REPRODUCES(reserved() >= before + kBytes ? "kept" : "given back", "kept", "given back");
}
