// A generator that the graph does not know cannot be drawn from in its capture.
//
// A kernel is told where in the generator's sequence to start. In a capture that number would be frozen and every
// replay would draw the same values, so LibTorch keeps it in device memory instead, for generators that are registered
// with the graph. Others it refuses. The default generator is always registered; from 2.14 on every generator is, at
// its first use. The numbers are the document's, from a generator of seed 1234.
//
// Alone:  g++ cases/rng/unregistered_generator.cpp $(ci/libtorch --flags) -o unregistered_generator

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A custom generator that is not registered with the graph is refused in the capture",
    .sources = {{"capture failures", "Custom Generator: Registration Required"},
                {"capture failures", "Random Number Generator Failures"}},
    .documented = "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .fixes =
        {{"FixRegisterBeforeCapture",
          "Call graph.register_generator_state(generator) before the capture; from 2.14 on this happens by itself."},
         {"FixUseDefaultGenerator",
          "Draw from the default CUDA generator, which every graph registers by itself: pass no generator argument."}},
};

class UnregisteredGenerator : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    generator = make_cuda_generator();
    generator.set_current_seed(1234);
    EXPECT_EQ(values(draw(generator)), std::vector<double>{840});  // The warm-up.
    EXPECT_EQ(values(draw(generator)), std::vector<double>{565});
  }
  static at::Tensor draw(const at::Generator& from) {
    return at::randint(1024, {1}, from, at::TensorOptions().device(at::kCUDA).dtype(at::kLong));
  }
  at::Generator generator;
};

TEST_F(UnregisteredGenerator, Control) {
  for (const double value : {216, 574, 727, 457}) EXPECT_EQ(values(draw(generator)), std::vector<double>{value});
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
  if (register_generator(*graph, generator) == Registration::Impossible) {
    NOT_APPLICABLE("this release cannot register a custom generator");
  }
  graph->capture_begin();
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const double value : {216, 574, 727, 457}) {
    graph->replay();
    EXPECT_EQ(values(x), std::vector<double>{value});
  }
}

// The default generator needs no registration, and a graph draws from it what eager code of the same seed draws.
TEST_F(UnregisteredGenerator, FixUseDefaultGenerator) {
  at::Generator standard = at::cuda::detail::getDefaultCUDAGenerator(0);
  standard.set_current_seed(1234);
  EXPECT_EQ(values(draw(standard)), std::vector<double>{840});
  EXPECT_EQ(values(draw(standard)), std::vector<double>{565});
  graph->capture_begin();
  const at::Tensor x = draw(standard);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const double value : {216, 574, 727, 457}) {
    graph->replay();
    EXPECT_EQ(values(x), std::vector<double>{value});
  }
}
