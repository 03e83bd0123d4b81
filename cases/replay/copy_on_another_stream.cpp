// A replay does not wait for a copy on another stream, and reads the input of the step before.
//
// LibTorch's streams do not wait for the legacy default stream. A program that uploads its input there, with
// non_blocking=True, and replays on another stream has an upload that is still pending when the replay reads. From
// pageable memory the call returns once the bytes are staged, so it can't be taken for a wait either. A host
// function holds the default stream here; in a program whatever was launched before does.
//
// Alone:  g++ cases/replay/copy_on_another_stream.cpp $(tools/libtorch --flags) -o copy_on_another_stream

#include "fixtures/cuda/gate.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A replay reads its input before a non-blocking copy on another stream has written it",
    .sources = {{"CUDA graph guide", "Numerical Errors"}, {"CUDA runtime API", "API synchronization behavior"}},
    .documented = "stale values: the replay has the input of the step before",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "default stream", "pinned memory"},
    .features = {"side streams"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixWaitForTheCopy",
               "Record an event after the copy and let the replay's stream wait for it: wait_stream() in Python."},
              {"FixCopyOnTheReplayStream", "Copy on the stream that the graph is replayed on."}},
    .connections = 8,
};

class CopyOnAnotherStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({1}, 3.0, at::kCUDA);
    graph->capture_begin();
    y = x * 2;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    graph->replay();
    values(y);  // Loads what reading launches.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // Uploads 5, 7 and 9 on a busy stream, each followed by a replay on the test's own.
  std::vector<double> three_steps(const c10::cuda::CUDAStream& uploading, bool pinned, bool waits) {
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      const at::Tensor source = at::full({1}, 1.0 * value, at::TensorOptions().pinned_memory(pinned));
      at::cuda::CUDAEvent uploaded;
      gate.close();
      EXPECT_EQ(gate.hold(uploading), cudaSuccess);
      {
        const c10::cuda::CUDAStreamGuard guard(uploading);
        x.copy_(source, /*non_blocking=*/true);
        uploaded.record(uploading);
      }
      if (waits) uploaded.block(stream);
      graph->replay();
      const bool stands_behind_the_gate = waits || uploading == stream;
      if (stands_behind_the_gate) gate.open();
      all.push_back(values(y)[0]);
      gate.open();
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    return all;
  }

  static c10::cuda::CUDAStream legacy() { return c10::cuda::getDefaultCUDAStream(0); }

  Gate gate;
  at::Tensor x, y;
  const std::vector<double> stale{6, 10, 14}, right{10, 14, 18};
};

// Eager work goes to the stream that is current, in order with the copy.
TEST_F(CopyOnAnotherStream, ControlEager) {
  const c10::cuda::CUDAStreamGuard guard(legacy());
  for (const int value : {5, 7, 9}) {
    x.copy_(at::full({1}, 1.0 * value), /*non_blocking=*/true);
    EXPECT_EQ(values(x * 2), std::vector<double>{2.0 * value});
  }
}

TEST_F(CopyOnAnotherStream, Control) { EXPECT_EQ(three_steps(stream, /*pinned=*/false, /*waits=*/false), right); }

TEST_F(CopyOnAnotherStream, ReproducesFromPageableMemory) {
  REPRODUCES(three_steps(legacy(), /*pinned=*/false, /*waits=*/!trigger_on()), stale, right);
}

TEST_F(CopyOnAnotherStream, ReproducesFromPinnedMemory) {
  REPRODUCES(three_steps(legacy(), /*pinned=*/true, /*waits=*/!trigger_on()), stale, right);
}

TEST_F(CopyOnAnotherStream, FixWaitForTheCopy) {
  bool waits = false;
  REMEDY(waits = true);
  EXPECT_EQ(three_steps(legacy(), /*pinned=*/true, waits), right);
}

TEST_F(CopyOnAnotherStream, FixCopyOnTheReplayStream) {
  c10::cuda::CUDAStream uploading = legacy();
  REMEDY(uploading = stream);
  EXPECT_EQ(three_steps(uploading, /*pinned=*/true, /*waits=*/false), right);
}
