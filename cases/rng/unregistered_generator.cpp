// A capture cannot draw from a generator that is not registered with its graph.
//
// Each kernel is passed the offset in the generator's sequence at which it starts. A capture would freeze that number,
// and every replay would draw the same values, so LibTorch keeps it in device memory for generators that are registered
// with the graph, and refuses others. The default generator is always registered; from 2.14 on any generator registers
// at its first use. The numbers are the document's, with seed 1234. unregistered_generator_in_python runs its program.
//
// Alone:  g++ cases/rng/unregistered_generator.cpp $(tools/libtorch --flags) -o unregistered_generator

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A custom generator that is not registered with the graph is refused in the capture",
    .sources = {{"capture failures", "Custom Generator: Registration Required"},
                {"capture failures", "Random Number Generator Failures"}},
    .documented = "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes =
        {{"FixRegisterBeforeCapture",
          "Call graph.register_generator_state(generator) before the capture; from 2.14 on this happens by itself.",
          "<2.14"},
         {"FixUseDefaultGenerator",
          "Draw from the default CUDA generator, which every graph registers by itself: pass no generator argument."}},
};

class UnregisteredGenerator : public GeneratorTest {};

// The numbers are drawn outside, and the graph reads them.
TEST_F(UnregisteredGenerator, Control) {
  const at::Tensor drawn = at::zeros({1}, at::TensorOptions().device(at::kCUDA).dtype(at::kLong));
  graph->capture_begin();
  const at::Tensor x = drawn.clone();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const double value : {216, 574, 727, 457}) {
    drawn.copy_(draw(generator));
    EXPECT_EQ(replay(*graph, x, 1), std::vector<double>{value});
  }
}

TEST_F(UnregisteredGenerator, Reproduces) {
  WITHOUT_TRIGGER(register_generator(*graph, generator));
  graph->capture_begin();
  const Failure first = failure_of([&] { draw(generator); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Attempt to increase offset for a CUDA generator not in capture mode.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(UnregisteredGenerator, FixRegisterBeforeCapture) {
  NEEDS_REGISTRATION();
  REMEDY(REGISTER_OR_SKIP(*graph, generator));
  graph->capture_begin();
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}

// The default generator needs no registration, and a graph draws from it what eager code of the same seed draws.
TEST_F(UnregisteredGenerator, FixUseDefaultGenerator) {
  NEEDS_REGISTRATION();
  at::Generator from = generator;
  REMEDY(from = standard());
  from.set_current_seed(kSeed);
  EXPECT_EQ(values(draw(from)), std::vector<double>{840});
  EXPECT_EQ(values(draw(from)), std::vector<double>{565});
  graph->capture_begin();
  const at::Tensor x = draw(from);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}
