// emptyCache() during a capture frees nothing.
//
// The allocator sees that a capture is under way and leaves every cached segment alone: cudaFree would invalidate the
// capture. A freed tensor of 64 MiB lies in the cache; the trigger is that emptyCache() is called inside the capture
// and not after it. Up to 2.7 the call fails an internal assertion.
//
// Alone:  g++ cases/memory/empty_cache_in_capture.cpp $(tools/libtorch --flags) -o empty_cache_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "emptyCache() during a capture is a no-op",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"upstream", "pytorch#158152"}},
    .documented = "empty_cache() is a safe no-op during capture: no error, nothing is freed",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"memory pools"},
    .features = {"memory pools"},
    .effect = Effect::Works,
    .fixes = {{"FixEmptyAfterCapture", "Call torch.cuda.empty_cache() after the capture has ended."}},
};

namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class EmptyCacheInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    at::empty({kBytes}, at::device(at::kCUDA).dtype(at::kByte)).reset();
  }
  at::Tensor data;
};

TEST_F(EmptyCacheInCapture, Control) {
  const int64_t before = reserved();
  c10::cuda::CUDACachingAllocator::emptyCache();
  EXPECT_LE(reserved(), before - kBytes);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 6));
}

TEST_F(EmptyCacheInCapture, Reproduces) {
  const int64_t before = reserved();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(c10::cuda::CUDACachingAllocator::emptyCache()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  WITHOUT_TRIGGER(c10::cuda::CUDACachingAllocator::emptyCache());
  const std::string cache = reserved() >= before ? "kept" : "freed";
  REPRODUCES(seen(first, status, end) + ", cache " + cache, "ok > active > ok, cache kept",
             "ok > active > ok, cache freed");
}

TEST_F(EmptyCacheInCapture, FixEmptyAfterCapture) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const int64_t before = reserved();
  WITHOUT_REMEDY(c10::cuda::CUDACachingAllocator::emptyCache());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  REMEDY(c10::cuda::CUDACachingAllocator::emptyCache());
  EXPECT_LE(reserved(), before - kBytes);
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}
