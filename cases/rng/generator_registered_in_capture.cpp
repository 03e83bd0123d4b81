// Registering a generator after the capture has begun is too late.
//
// Registration allocates the device memory for seed and offset and fills it when the capture begins. Both would become
// part of the graph if it were done inside, so LibTorch refuses it, and the draw after it. From 2.14 on there is
// nothing left to call: a generator is registered by its first draw.
//
// Alone:  g++ cases/rng/generator_registered_in_capture.cpp $(ci/libtorch --flags) -o generator_registered_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A generator cannot be registered once the capture has begun",
    .sources = {{"upstream", "pytorch#114068"}, {"capture failures", "Custom Generator: Registration Required"}},
    .documented = "Cannot register the state during capturing stage.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .fixes = {{"FixRegisterBeforeCapture",
               "Move register_generator_state() in front of capture_begin(); from 2.14 on the first draw registers the "
               "generator."}},
};

class GeneratorRegisteredInCapture : public GeneratorTest {};

TEST_F(GeneratorRegisteredInCapture, Control) {
  graph->capture_begin();
  const at::Tensor x = at::ones({1}, at::kCUDA) + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{2, 2}));
}

TEST_F(GeneratorRegisteredInCapture, Reproduces) {
  Registration done = Registration::Impossible;
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(done = register_generator(*graph, generator)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  // Never destroyed: the graph now knows a generator that does not know the graph, and its destructor throws over that.
  static_cast<void>(graph.release());
  if (trigger_on() && !first && done == Registration::Impossible) {
    NOT_APPLICABLE("this release cannot register a custom generator");
  }
  REPRODUCES(seen(first, status, end), "check \"Cannot register the state during capturing stage.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorRegisteredInCapture, FixRegisterBeforeCapture) {
  REGISTER_OR_SKIP(*graph, generator);
  graph->capture_begin();
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}
