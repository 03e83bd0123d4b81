// The first replay can draw its random numbers from the wrong place of the sequence, silently.
//
// capture_begin() writes offset zero into the memory from which a graph reads its generator's offset, on the capturing
// stream and before the capture opens there; each replay() writes the real offset, on the stream that is current then.
// Nothing orders the two. If the capturing stream still has work before it, and the graph is replayed on another
// stream, as after torch.cuda.graph(), which captures on a side stream and goes back to the default one, then the zero
// can arrive after the offset and before the kernel that reads it: the first replay repeats the generator's first
// numbers. Later replays are right. On a busy GPU it happens by itself: it made unregistered_generator_in_python fail
// once in some dozen runs. Here the order is made sure: the capturing stream spins before capture_begin(), and the
// captured work spins longer before it draws.
//
// No document has this: a test that failed once led to it.
//
// Alone:  g++ cases/rng/first_replay_beside_capture_stream.cpp $(ci/libtorch --flags) -o first_replay_beside_capture_stream

#include <ATen/cuda/Sleep.h>

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A first replay that does not wait for the capturing stream draws the wrong random numbers",
    .sources = {{"PyTorch source", "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: capture_prologue"},
                {"PyTorch source", "aten/src/ATen/cuda/CUDAGraph.cpp: replay"}},
    .documented = "not documented: the first replay draws at offset zero, 840 instead of 216",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixWaitForTheCapturingStream",
               "Let the replaying stream wait for the capturing one before the first replay(), or call "
               "torch.cuda.synchronize()."},
              {"FixReplayOnTheCapturingStream",
               "Replay the graph on the stream that it was captured on, inside `with torch.cuda.stream(side)`."}},
};

constexpr int64_t kShortSpin = 200'000'000, kLongSpin = 1'000'000'000;  // GPU cycles: some 0.1 s and 0.6 s.

class FirstReplayBesideCaptureStream : public GeneratorTest {
 protected:
  // Captures a draw behind a long spin, while work is pending on the capturing stream.
  at::Tensor capture() {
    replaying = another_stream();
    at::cuda::sleep(kShortSpin);
    graph->capture_begin();
    at::cuda::sleep(kLongSpin);
    const at::Tensor drawn = draw(generator);
    graph->capture_end();
    return drawn;
  }
  void wait_for_the_capturing_stream() {
    at::cuda::CUDAEvent captured;
    captured.record(stream);
    captured.block(replaying);
  }
  c10::cuda::CUDAStream replaying{stream};
};

TEST_F(FirstReplayBesideCaptureStream, Control) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor drawn = capture();
  wait_for_the_capturing_stream();
  const c10::cuda::CUDAStreamGuard guard(replaying);
  EXPECT_EQ(replay(*graph, drawn, 3), (std::vector<double>{216, 574, 727}));
}

TEST_F(FirstReplayBesideCaptureStream, Reproduces) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor drawn = capture();
  WITHOUT_TRIGGER(wait_for_the_capturing_stream());
  const c10::cuda::CUDAStreamGuard guard(replaying);
  REPRODUCES(replay(*graph, drawn, 3), (std::vector<double>{840, 574, 727}), (std::vector<double>{216, 574, 727}));
}

TEST_F(FirstReplayBesideCaptureStream, FixWaitForTheCapturingStream) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor drawn = capture();
  REMEDY(wait_for_the_capturing_stream());
  const c10::cuda::CUDAStreamGuard guard(replaying);
  EXPECT_EQ(replay(*graph, drawn, 3), (std::vector<double>{216, 574, 727}));
}

TEST_F(FirstReplayBesideCaptureStream, FixReplayOnTheCapturingStream) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor drawn = capture();
  REMEDY(replaying = stream);
  const c10::cuda::CUDAStreamGuard guard(replaying);
  EXPECT_EQ(replay(*graph, drawn, 3), (std::vector<double>{216, 574, 727}));
}
