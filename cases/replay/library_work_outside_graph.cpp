// Work that a library launches on a stream which does not capture runs once, beside the capture, and in no replay.
//
// A library that uses the legacy default stream, or a stream of its own, is not heard by a capture on a non-blocking
// stream, which all of LibTorch's are. The call succeeds and runs at once, and what the graph reads of its output is
// what that one run left: every replay has the numbers of the capture. Here the library copies its input to a buffer,
// and the graph doubles that buffer.
//
// Alone:  g++ cases/replay/library_work_outside_graph.cpp $(tools/libtorch --flags) -o library_work_outside_graph

#include <functional>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A library's work on a stream that does not capture is missing from the graph, and its output is frozen",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"upstream", "SageAttention#371"},
                {"upstream", "helion#2817"}},
    .documented = "the operation is not in the graph; its result is stale",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"extensions", "raw CUDA calls", "default stream", "side streams"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixPassTheCurrentStream",
               "Let the library launch its work on the current stream, at::cuda::getCurrentCUDAStream()."},
              {"FixForkAndJoinItsStream",
               "Let the library's stream wait for an event of the capturing stream, and that one for the library's."},
              {"FixCallBeforeEachReplay",
               "Call the library before each graph.replay(), outside the capture, and let the replay wait for it."}},
};

class LibraryWorkOutsideGraph : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({1}, 3.0, at::kCUDA);
    staged = at::zeros({1}, at::kCUDA);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // The library: it takes a stream for its work, as cuBLAS and NPP do.
  void stage(cudaStream_t on) {
    EXPECT_EQ(cudaMemcpyAsync(staged.data_ptr(), x.data_ptr(), x.nbytes(), cudaMemcpyDeviceToDevice, on), cudaSuccess);
  }

  // A graph that calls the library on a stream, or not at all.
  void capture(const std::function<void()>& library) {
    graph->capture_begin();
    library();
    y = staged * 2;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  std::vector<double> three_replays(const std::function<void()>& before = [] {}) {
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      x.fill_(value);
      before();
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  at::Tensor x, staged, y;
  const std::vector<double> frozen{6, 6, 6}, right{10, 14, 18};
};

// Without a graph, an own stream that is waited for does no harm.
TEST_F(LibraryWorkOutsideGraph, ControlEager) {
  for (const int value : {5, 7, 9}) {
    x.fill_(value);
    ASSERT_CUDA(cudaDeviceSynchronize());
    stage(cudaStreamLegacy);
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(values(staged * 2), std::vector<double>{2.0 * value});
  }
}

TEST_F(LibraryWorkOutsideGraph, Control) {
  capture([&] { stage(stream); });
  EXPECT_EQ(three_replays(), right);
}

TEST_F(LibraryWorkOutsideGraph, ReproducesOnTheLegacyStream) {
  cudaStream_t used = stream;
  TRIGGER(used = cudaStreamLegacy);
  capture([&] { stage(used); });
  REPRODUCES(three_replays(), frozen, right);
}

TEST_F(LibraryWorkOutsideGraph, ReproducesOnAStreamOfItsOwn) {
  cudaStream_t used = stream;
  TRIGGER(used = another_stream());
  capture([&] { stage(used); });
  REPRODUCES(three_replays(), frozen, right);
}

TEST_F(LibraryWorkOutsideGraph, FixPassTheCurrentStream) {
  cudaStream_t used = cudaStreamLegacy;
  REMEDY(used = at::cuda::getCurrentCUDAStream());
  capture([&] { stage(used); });
  EXPECT_EQ(three_replays(), right);
}

TEST_F(LibraryWorkOutsideGraph, FixForkAndJoinItsStream) {
  const c10::cuda::CUDAStream own = another_stream();
  at::cuda::CUDAEvent fork, join;
  capture([&] {
    REMEDY(fork.record(stream); fork.block(own));
    stage(own);
    REMEDY(join.record(own); join.block(stream));
  });
  EXPECT_EQ(three_replays(), right);
}

TEST_F(LibraryWorkOutsideGraph, FixCallBeforeEachReplay) {
  const c10::cuda::CUDAStream own = another_stream();
  capture([&] { WITHOUT_REMEDY(stage(own)); });
  const auto call = [&] { REMEDY(stream.synchronize(); stage(own); own.synchronize()); };
  EXPECT_EQ(three_replays(call), right);
}
