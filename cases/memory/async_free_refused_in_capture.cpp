// cudaFreeAsync of older memory on a capturing stream returns an error, the capture goes on, and the memory is kept.
//
// In a capture only memory that the capture itself has allocated may be freed. For other memory the call returns 1, an
// invalid argument, and breaks nothing, so a destructor that ignores what it returns has lost the block: nobody has its
// address any more. The default pool's own count shows it. No document has this; it was found by trying
// (errors_that_break_nothing).
//
// Alone:  g++ cases/memory/async_free_refused_in_capture.cpp $(tools/libtorch --flags) -o async_free_refused_in_capture

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Memory whose cudaFreeAsync in a capture was refused, and the error ignored, is lost",
    .sources = {{"CUDA runtime API", "Stream Ordered Memory Allocator: cudaFreeAsync"}},
    .documented = "not documented: cudaErrorInvalidValue (1), the capture is valid, and the memory stays allocated",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "memory pools"},
    .features = {"raw CUDA calls"},
    .effect = Effect::Leaks,
    .fixes = {{"FixFreeAfterTheCapture",
               "Free memory from before the capture after it has ended, or on a stream that does not capture."},
              {"FixCheckTheError",
               "Check what cudaFreeAsync() returns, and free the memory later where it was refused."}},
};

class AsyncFreeRefusedInCapture : public RuntimeTest {
 protected:
  static constexpr size_t kBytes = 64 << 20;

  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMallocAsync(&block, kBytes, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
  }

  // What the default pool counts as used.
  uint64_t used() {
    cudaMemPool_t pool = nullptr;
    uint64_t bytes = 0;
    EXPECT_EQ(cudaStreamSynchronize(side), cudaSuccess);
    EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
    EXPECT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes), cudaSuccess);
    return bytes;
  }

  // A capture of one copy, and of what `body` does to the block.
  template <class Body>
  void capture(Body body) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    body();
    EXPECT_EQ(captured_nodes(stream), 1);
    ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  }

  void expect_copied() {
    const cudaGraphExec_t exec = instantiated(captured);
    for (const int value : {5, 7, 9}) EXPECT_EQ(launch(exec, value), value);
  }

  void* block = nullptr;
};

TEST_F(AsyncFreeRefusedInCapture, Control) {
  ASSERT_CUDA(cudaFreeAsync(block, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  capture([] {});
  EXPECT_EQ(used(), 0U);
  expect_copied();
}

TEST_F(AsyncFreeRefusedInCapture, Reproduces) {
  capture([&] { TRIGGER((void)cudaFreeAsync(block, stream)); });
  WITHOUT_TRIGGER(ASSERT_CUDA(cudaFreeAsync(block, side)));
  (void)cudaGetLastError();
  REPRODUCES(used() >> 20, 64U, 0U);
}

TEST_F(AsyncFreeRefusedInCapture, FixFreeAfterTheCapture) {
  capture([&] { WITHOUT_REMEDY((void)cudaFreeAsync(block, stream)); });
  REMEDY(ASSERT_CUDA(cudaFreeAsync(block, side)));
  EXPECT_EQ(used(), 0U);
  expect_copied();
}

TEST_F(AsyncFreeRefusedInCapture, FixCheckTheError) {
  cudaError_t error = cudaSuccess;
  capture([&] { error = cudaFreeAsync(block, stream); });
  REMEDY(if (error != cudaSuccess) ASSERT_CUDA(cudaFreeAsync(block, side)));
  (void)cudaGetLastError();
  EXPECT_EQ(used(), 0U);
  expect_copied();
}
