// Work on a side stream that did not fork from the capture breaks the capture that waits for it.
//
// A side stream takes part in a capture only after it has waited for the capturing stream. Otherwise its work is
// ordinary work beside a capture in global mode. If it needs fresh memory, LibTorch's allocator does not relax the mode
// for a stream that does not capture, and its cudaMalloc is refused with 900. If the memory is cached, the work runs at
// once, and the capture fails a step later, with 905, where it waits for work that is not its own. Each variant fixes
// what the allocator has: for a stream new to it nothing is cached, and a warm-up on the stream leaves a block.
//
// Alone:  g++ cases/streams/side_stream_without_fork.cpp $(tools/libtorch --flags) -o side_stream_without_fork

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A side stream used without waiting for the capturing stream breaks the capture",
    .sources = {{"capture failures", "Quick Reference"},
                {"PyTorch documentation", "CUDA semantics: Usage with multiple streams"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureIsolation"}},
    .documented = "All side streams have entry sync",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams"},
    .features = {"side streams"},
    .fixes = {{"FixForkFromTheCapture",
               "Call side_stream.wait_stream(capture_stream) before the side stream's first work, and the reverse "
               "before the capture ends."}},
};

class SideStreamWithoutFork : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    x.add(1);  // Loads the kernel, which must not happen beside an open capture.
    side = c10::cuda::getStreamFromPool();
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void add_on_side_stream() {
    const c10::cuda::CUDAStreamGuard guard(side);
    y = x + 1;
  }

  at::Tensor x, y;
  c10::cuda::CUDAStream side = stream;
  at::cuda::CUDAEvent fork, join;
};

TEST_F(SideStreamWithoutFork, Control) {
  graph->capture_begin();
  y = x + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(SideStreamWithoutFork, Reproduces) {
  graph->capture_begin();
  WITHOUT_TRIGGER(fork.record(stream); fork.block(side));
  const Failure first = failure_of([&] {
    add_on_side_stream();
    join.record(side);
    join.block(stream);
  });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(SideStreamWithoutFork, ReproducesWithCachedMemory) {
  add_on_side_stream();
  y.reset();
  ASSERT_CUDA(cudaDeviceSynchronize());
  graph->capture_begin();
  WITHOUT_TRIGGER(fork.record(stream); fork.block(side));
  const Failure first = failure_of([&] {
    add_on_side_stream();
    join.record(side);
    join.block(stream);
  });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "905 > invalidated > 901", "ok > active > ok");
}

TEST_F(SideStreamWithoutFork, FixForkFromTheCapture) {
  graph->capture_begin();
  REMEDY(fork.record(stream); fork.block(side));
  add_on_side_stream();
  join.record(side);
  join.block(stream);
  const at::Tensor result = y * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2.0 * (value + 1)));
  }
}
