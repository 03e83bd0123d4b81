// Setting the state of a generator is refused in a capture.
//
// torch.cuda.set_rng_state() calls set_state(), which writes seed and offset, two host numbers. Up to 2.9 LibTorch
// always refuses it; from 2.10 on it accepts a state with the generator's own seed, and refuses one with another seed
// in other words. The graph-safe call switches between states that the graph knows, whose numbers advance from replay
// to replay as in eager code. rng_state_in_python_capture runs the document's program.
//
// Alone:  g++ cases/rng/rng_state_set_in_capture.cpp $(tools/libtorch --flags) -o rng_state_set_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Setting a generator's state is refused in a capture",
    .sources = {{"capture failures", "RNG State Operations: Use Graph-Safe APIs"},
                {"upstream", "pytorch#114068"},
                {"upstream", "pytorch#162505"}},
    .documented =
        "RuntimeError: Please ensure to utilize the CUDAGeneratorImpl::set_state_index method during capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes =
        {{"FixSwitchGraphSafeStates",
          "Register every generator with the graph and switch between them in the capture with graphsafe_set_state()."},
         {"FixSetBetweenReplays",
          "Call set_state(), or torch.cuda.set_rng_state(), between replays; the next replay draws from that state."}},
};

class RngStateSetInCapture : public GeneratorTest {
 protected:
  std::string set_in_capture(const at::Tensor& state) {
    graph->capture_begin();
    const Failure first = failure_of([&] { TRIGGER(standard().set_state(state)); });
    draw(standard());
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
  static constexpr const char* kDocumented =
      "check \"Please ensure to utilize the CUDAGeneratorImpl::set_state_index method during capturing*\" > active > "
      "ok";
};

TEST_F(RngStateSetInCapture, Control) {
  standard().set_current_seed(kSeed);
  const at::Tensor state = standard().get_state();
  graph->capture_begin();
  const at::Tensor x = draw(standard());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
  standard().set_state(state);
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
}

TEST_F(RngStateSetInCapture, Reproduces) {
  REPRODUCES(set_in_capture(standard().get_state()), kDocumented, "ok > active > ok");
}

TEST_F(RngStateSetInCapture, ReproducesWithOtherSeed) {
  const at::Tensor state = generator.get_state();
  standard().set_current_seed(4321);
  REPRODUCES(set_in_capture(state), kDocumented, "ok > active > ok");
}

// Two sequences in one graph, as in a program with one state for what all ranks share and one for the rest.
TEST_F(RngStateSetInCapture, FixSwitchGraphSafeStates) {
  const at::Generator own = graphsafe_get_state(generator);
  if (!own.defined()) NOT_APPLICABLE("no graph-safe generator state in this release");
  at::Generator shared = make_cuda_generator();
  shared.set_current_seed(4321);
  const at::Tensor numbers = shared.get_state();
  register_generator(*graph, generator);
  register_generator(*graph, shared);
  graph->capture_begin();
  REMEDY(graphsafe_set_state(generator, shared));
  WITHOUT_REMEDY(generator.set_state(numbers));
  const at::Tensor from_shared = draw(generator);
  REMEDY(graphsafe_set_state(generator, own));
  const at::Tensor from_own = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  const std::vector<double> expected = eager(4321, 0, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replay(*graph, from_own, 1)[0], (std::vector<double>{216, 574, 727})[i]);
    EXPECT_EQ(values(from_shared)[0], expected[i]);
  }
}

TEST_F(RngStateSetInCapture, FixSetBetweenReplays) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor state = generator.get_state();
  graph->capture_begin();
  WITHOUT_REMEDY(generator.set_state(state));
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (int round = 0; round < 2; ++round) {
    REMEDY(generator.set_state(state));
    EXPECT_EQ(replay(*graph, x, 3), (std::vector<double>{216, 574, 727}));
  }
}
