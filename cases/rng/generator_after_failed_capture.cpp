// After a failed capture a registered generator cannot be drawn from any more, not even by eager code.
//
// The beginning of a capture marks the registered generators, and only a capture that ends well unmarks them. Once a
// capture is invalidated, here by item(), the mark stays, and the next draw on an ordinary stream meets a generator
// that believes to be in a capture. Later releases keep this state with the capture and not with the generator.
//
// Alone:  g++ cases/rng/generator_after_failed_capture.cpp $(ci/libtorch --flags) -o generator_after_failed_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A failed capture leaves its registered generators unusable",
    .sources = {{"upstream", "ACE-Step-1.5#587"}, {"upstream", "pytorch#172390"}, {"upstream", "pytorch#176752"}},
    .documented = "Offset increment outside graph capture encountered unexpectedly.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .fixes = {{"FixMakeAnotherGenerator",
               "Make a new torch.Generator(device='cuda') after the failed capture and draw from that one instead."},
              {"FixCaptureAgain",
               "Register the generator with a new CUDAGraph and complete a capture, which makes it usable again."}},
};

class GeneratorAfterFailedCapture : public GeneratorTest {
 protected:
  void SetUp() override {
    GeneratorTest::SetUp();
    if (IsSkipped()) return;
    data = at::ones({1}, at::kCUDA);
    data.item();
  }
  // A capture with two draws in it, one of the default generator and one of the registered. `invalidate` makes it fail.
  void capture(bool invalidate) {
    graph->capture_begin();
    failure_of([&] {
      draw(generator);
      draw(standard());
      if (invalidate) data.item();
    });
    const Failure end = failure_of([&] { graph->capture_end(); });
    EXPECT_EQ(end.text, invalidate ? "901" : "ok");
  }
  static at::Generator standard() { return at::cuda::detail::getDefaultCUDAGenerator(0); }
  at::Tensor data;
};

TEST_F(GeneratorAfterFailedCapture, Control) {
  REGISTER_OR_SKIP(*graph, generator);
  capture(false);
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});
}

TEST_F(GeneratorAfterFailedCapture, Reproduces) {
  REGISTER_OR_SKIP(*graph, generator);
  capture(trigger_on());
  std::string drawn;
  const Failure next = failure_of([&] { drawn = text_of(values(draw(generator))); });
  REPRODUCES(next ? next.text : drawn, "check \"Offset increment outside graph capture encountered unexpectedly.*\"",
             "{ 216 }");
}

TEST_F(GeneratorAfterFailedCapture, ReproducesWithDefaultGenerator) {
  standard().set_current_seed(kSeed);
  REGISTER_OR_SKIP(*graph, generator);
  capture(trigger_on());
  std::string drawn;
  const Failure next = failure_of([&] { drawn = text_of(values(draw(standard()))); });
  REPRODUCES(next ? next.text : drawn, "check \"Offset increment outside graph capture encountered unexpectedly.*\"",
             "{ 840 }");
}

// A generator that never met the failed capture is untouched by it.
TEST_F(GeneratorAfterFailedCapture, FixMakeAnotherGenerator) {
  REGISTER_OR_SKIP(*graph, generator);
  capture(true);
  EXPECT_EQ(eager(kSeed, 0, 4), (std::vector<double>{840, 565, 216, 574}));
}

// The next capture that ends well unmarks the generators registered with it.
TEST_F(GeneratorAfterFailedCapture, FixCaptureAgain) {
  REGISTER_OR_SKIP(*graph, generator);
  capture(true);
  const auto second = make_graph();
  register_generator(*second, generator);
  second->capture_begin();
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  second->capture_end();
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});
  EXPECT_EQ(replay(*second, x, 2), (std::vector<double>{574, 727}));
}
