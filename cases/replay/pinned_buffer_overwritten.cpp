// A pinned buffer that the host fills for the next step before the last replay has copied it: the replay has later
// values.
//
// A captured copy reads the buffer when the replay comes to it, and graph.replay() returns long before. A host that
// runs ahead of a busy GPU overwrites what has not been copied yet: of the squares 0 1 4 9 all four are 9 here, because
// a host function holds the stream until the host has filled the buffer for the last time. In a program it is a matter
// of time.
//
// Alone:  g++ cases/replay/pinned_buffer_overwritten.cpp $(tools/libtorch --flags) -o pinned_buffer_overwritten

#include <array>

#include "fixtures/cuda/gate.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A replay uploads what the host has written to its pinned buffer since: later values for 0 1 4 9",
    .sources = {{"CUDA graph guide", "Numerical Errors"}},
    .documented = "0, 1, 4, 9 expected; values of later steps",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"pinned memory"},
    .features = {"pinned memory"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixWaitForTheCopy",
               "Record an event after graph.replay(), and synchronize() with it before the pinned buffer is written."},
              {"FixBufferForEachStep",
               "Copy from a pinned buffer of each step's own, before graph.replay(), instead of capturing the copy."}},
    .connections = 8,
};

class PinnedBufferOverwritten : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::zeros({1}, at::kCUDA);
    squares = at::zeros({4}, at::kCUDA);
    for (at::Tensor& buffer : buffers) buffer = at::zeros({1}, at::TensorOptions().pinned_memory(true));
    squares.slice(0, 0, 1).copy_(x.copy_(buffers[0], /*non_blocking=*/true) * x);  // Loads the kernels.
    stream.synchronize();
  }

  void capture(bool with_copy) {
    graph->capture_begin();
    if (with_copy) x.copy_(buffers[0], /*non_blocking=*/true);
    y = x * x;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    graph->replay();
    stream.synchronize();
  }

  void step(int number, const at::Tensor& buffer) {
    buffer.fill_(number);
    if (!buffer.is_same(buffers[0])) x.copy_(buffer, /*non_blocking=*/true);
    graph->replay();
    squares.slice(0, number, number + 1).copy_(y);
    copied.record(stream);
  }

  // Waiting for the GPU lets it run; until somebody waits it is busy.
  void wait_for_the_copy() {
    gate.open();
    copied.synchronize();
  }

  Gate gate;
  at::cuda::CUDAEvent copied;
  at::Tensor x, y, squares;
  std::array<at::Tensor, 5> buffers;  // The first one is the graph's.
  const std::vector<double> right{0, 1, 4, 9};
};

// Eager code that copies without waiting for the host has the same race; a blocking copy has none.
TEST_F(PinnedBufferOverwritten, ControlEager) {
  for (const int number : {0, 1, 2, 3}) {
    buffers[0].fill_(number);
    x.copy_(buffers[0]);
    squares.slice(0, number, number + 1).copy_(x * x);
  }
  EXPECT_EQ(values(squares), right);
}

TEST_F(PinnedBufferOverwritten, Control) {
  capture(/*with_copy=*/true);
  for (const int number : {0, 1, 2, 3}) {
    step(number, buffers[0]);
    stream.synchronize();
  }
  EXPECT_EQ(values(squares), right);
}

TEST_F(PinnedBufferOverwritten, Reproduces) {
  capture(/*with_copy=*/true);
  ASSERT_CUDA(gate.hold(stream));
  for (const int number : {0, 1, 2, 3}) {
    step(number, buffers[0]);
    WITHOUT_TRIGGER(wait_for_the_copy());
  }
  gate.open();
  REPRODUCES(values(squares), (std::vector<double>{9, 9, 9, 9}), right);
}

TEST_F(PinnedBufferOverwritten, FixWaitForTheCopy) {
  capture(/*with_copy=*/true);
  ASSERT_CUDA(gate.hold(stream));
  for (const int number : {0, 1, 2, 3}) {
    step(number, buffers[0]);
    REMEDY(wait_for_the_copy());
  }
  gate.open();
  EXPECT_EQ(values(squares), right);
}

TEST_F(PinnedBufferOverwritten, FixBufferForEachStep) {
  bool own = false;
  REMEDY(own = true);
  capture(/*with_copy=*/!own);
  ASSERT_CUDA(gate.hold(stream));
  for (const int number : {0, 1, 2, 3}) step(number, buffers[own ? number + 1 : 0]);
  gate.open();
  EXPECT_EQ(values(squares), right);
}
