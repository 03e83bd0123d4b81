// Reading the state of a generator is refused in a capture.
//
// torch.cuda.get_rng_state() calls get_state(), which copies seed and offset, two host numbers, out of the generator.
// Up to 2.9 LibTorch refuses it, so that nobody restores numbers that the graph would freeze; from 2.10 on it is
// allowed. The graph-safe call returns the state itself and not a copy of its numbers. rng_state_in_python_capture runs
// the document's program.
//
// Alone:  g++ cases/rng/rng_state_read_in_capture.cpp $(tools/libtorch --flags) -o rng_state_read_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Reading a generator's state is refused in a capture",
    .sources = {{"capture failures", "RNG State Operations: Use Graph-Safe APIs"}},
    .documented = "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes = {{"FixUseGraphSafeState",
               "Call graphsafe_get_state() on the registered generator in the capture, not get_state() or "
               "torch.cuda.get_rng_state()."},
              {"FixReadBeforeCapture",
               "Call get_state() before the capture and pass its result to set_state() to repeat the numbers in later "
               "replays."}},
};

class RngStateReadInCapture : public GeneratorTest {};

// The state is read and restored outside the capture of a draw.
TEST_F(RngStateReadInCapture, Control) {
  standard().set_current_seed(kSeed);
  const at::Tensor state = standard().get_state();
  EXPECT_EQ(values(draw(standard())), std::vector<double>{840});
  standard().set_state(state);
  graph->capture_begin();
  const at::Tensor x = draw(standard());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
}

TEST_F(RngStateReadInCapture, Reproduces) {
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(standard().get_state()); });
  draw(standard());
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

// The generator's state is kept, another one drawn from, and the kept one restored, all in the capture.
TEST_F(RngStateReadInCapture, FixUseGraphSafeState) {
  if (!graphsafe_get_state(generator).defined()) NOT_APPLICABLE("no graph-safe generator state in this release");
  at::Generator other = make_cuda_generator();
  other.set_current_seed(4321);
  const at::Tensor numbers = other.get_state();
  register_generator(*graph, generator);
  register_generator(*graph, other);
  at::Generator kept;
  graph->capture_begin();
  WITHOUT_REMEDY(generator.get_state(); generator.set_state(numbers));
  REMEDY(kept = graphsafe_get_state(generator); graphsafe_set_state(generator, other));
  const at::Tensor from_other = draw(generator);
  REMEDY(graphsafe_set_state(generator, kept));
  const at::Tensor from_kept = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  const std::vector<double> expected = eager(4321, 0, 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(replay(*graph, from_kept, 1)[0], (std::vector<double>{216, 574, 727, 457})[i]);
    EXPECT_EQ(values(from_other)[0], expected[i]);
  }
}

TEST_F(RngStateReadInCapture, FixReadBeforeCapture) {
  REGISTER_OR_SKIP(*graph, generator);
  at::Tensor state;
  REMEDY(state = generator.get_state());
  graph->capture_begin();
  WITHOUT_REMEDY(state = generator.get_state());
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
  generator.set_state(state);
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
}
