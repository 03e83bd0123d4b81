// Reading the state of a generator is refused in a capture.
//
// get_state() is what torch.cuda.get_rng_state() calls: it copies seed and offset, two host numbers, out of the
// generator. LibTorch refuses it up to 2.9, so that nobody restores numbers that the graph would freeze; from 2.10 on
// it is allowed. The graph-safe call hands out the state itself and not its numbers.
//
// Alone:  g++ cases/rng/rng_state_read_in_capture.cpp $(ci/libtorch --flags) -o rng_state_read_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Reading a generator's state is refused in a capture",
    .sources = {{"capture failures", "RNG State Operations: Use Graph-Safe APIs"}},
    .documented = "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .fixes = {{"FixUseGraphSafeState",
               "Call graphsafe_get_state() on the registered generator in the capture, not get_state() or "
               "torch.cuda.get_rng_state()."},
              {"FixReadBeforeCapture",
               "Call get_state() before the capture and pass its result to set_state() to repeat the numbers in later "
               "replays."}},
};

class RngStateReadInCapture : public GeneratorTest {};

TEST_F(RngStateReadInCapture, Control) {
  const at::Tensor state = generator.get_state();
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});
  generator.set_state(state);
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});
}

TEST_F(RngStateReadInCapture, Reproduces) {
  const at::Generator standard = at::cuda::detail::getDefaultCUDAGenerator(0);
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(standard.get_state()); });
  draw(standard);
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(RngStateReadInCapture, FixUseGraphSafeState) {
  if (!graphsafe_get_state(generator).defined()) NOT_APPLICABLE("no graph-safe generator state in this release");
  register_generator(*graph, generator);
  graph->capture_begin();
  const at::Generator state = graphsafe_get_state(generator);
  graphsafe_set_state(generator, state);
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}

TEST_F(RngStateReadInCapture, FixReadBeforeCapture) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor state = generator.get_state();
  graph->capture_begin();
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
  generator.set_state(state);
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
}
