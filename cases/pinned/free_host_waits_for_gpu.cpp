// cudaFreeHost waits until the GPU has finished all queued work, also on streams that never used the memory.
//
// That is why a capture refuses it: a call that waits for the GPU cannot be in a graph. Here a host function holds a
// stream up, and another thread frees pinned memory that no stream has used. The call returns only after the stream
// goes on. If the call did not wait, it would return while the stream is held up.
//
// Alone:  g++ cases/pinned/free_host_waits_for_gpu.cpp $(tools/libtorch --flags) -o free_host_waits_for_gpu

#include <chrono>
#include <future>
#include <string>

#include "fixtures/cuda/gate.h"
#include "fixtures/cuda/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "cudaFreeHost waits for all work that is queued on the GPU",
    .sources = {{"capture failures", "Pinned Memory: Forbidden in Global Mode"}},
    .documented = "cudaFreeHost causes implicit device synchronization",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory", "raw CUDA calls"},
    .features = {"pinned memory"},
    .effect = Effect::Works,
    .fixes = {{"FixFreeWhenTheGpuIsIdle", "Call cudaFreeHost only when the GPU has nothing left to do."}},
    .connections = 8,
};

class FreeHostWaitsForGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaHostAlloc(&block, 1 << 20, cudaHostAllocDefault));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // How cudaFreeHost went beside a stream that is held until it has returned, or a second has passed.
  std::string freed() {
    std::future<cudaError_t> freeing = std::async(std::launch::async, [this] { return cudaFreeHost(block); });
    const bool waits = freeing.wait_for(std::chrono::seconds(1)) != std::future_status::ready;
    gate.open();
    const cudaError_t error = freeing.get();
    if (error != cudaSuccess) return "error " + std::to_string(error);
    return waits ? "waits for the GPU" : "returns at once";
  }

  Gate gate;
  void* block = nullptr;
};

TEST_F(FreeHostWaitsForGpu, Control) { EXPECT_EQ(freed(), "returns at once"); }

TEST_F(FreeHostWaitsForGpu, Reproduces) {
  TRIGGER(ASSERT_CUDA(gate.hold(stream)); gate.wait_until_reached());
  REPRODUCES(freed(), "waits for the GPU", "returns at once");
}

TEST_F(FreeHostWaitsForGpu, FixFreeWhenTheGpuIsIdle) {
  ASSERT_CUDA(gate.hold(stream));
  REMEDY(gate.open(); ASSERT_CUDA(cudaStreamSynchronize(stream)));
  EXPECT_EQ(freed(), "returns at once");
}
