// Registering a generator after the capture has begun is too late.
//
// Registration allocates device memory for seed and offset, which capture_begin() fills. Inside the capture both would
// become part of the graph, so LibTorch refuses to register, and then refuses the draw. From 2.14 on the call is gone:
// the draw itself registers the generator. The document has only the remedy, to register before the capture; that
// registering later fails is our own addition.
//
// Alone:  g++ cases/rng/generator_registered_in_capture.cpp $(tools/libtorch --flags) -o generator_registered_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A generator cannot be registered once the capture has begun",
    .sources = {{"upstream", "pytorch#114068"}, {"capture failures", "Custom Generator: Registration Required"}},
    .documented = "Cannot register the state during capturing stage.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes = {{"FixRegisterBeforeCapture",
               "Call register_generator_state() before capture_begin(); from 2.14 on the first draw registers the "
               "generator.",
               "<2.14"}},
};

class GeneratorRegisteredInCapture : public GeneratorTest {};

// The default generator, which needs no registration.
TEST_F(GeneratorRegisteredInCapture, Control) {
  standard().set_current_seed(kSeed);
  graph->capture_begin();
  const at::Tensor x = draw(standard());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
}

TEST_F(GeneratorRegisteredInCapture, Reproduces) {
  WITHOUT_TRIGGER(REGISTER_OR_SKIP(*graph, generator));
  Registration done = Registration::Automatic;
  at::Tensor x;
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(done = register_generator(*graph, generator)); });
  const Failure refused = failure_of([&] { x = draw(generator); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  if (done == Registration::Impossible) NOT_APPLICABLE("this release cannot register a custom generator");
  const std::string drawn = refused ? refused.text : text_of(replay(*graph, x, 2));
  // Never destroyed: the graph now knows a generator that does not know the graph, and its destructor throws over that.
  static_cast<void>(graph.release());
  REPRODUCES(seen(first, status, end) + ", " + drawn,
             "check \"Cannot register the state during capturing stage.*\" > active > ok, "
             "check \"Attempt to increase offset for a CUDA generator not in capture mode.*\"",
             "ok > active > ok, { 216, 574 }");
}

TEST_F(GeneratorRegisteredInCapture, FixRegisterBeforeCapture) {
  NEEDS_REGISTRATION();
  REMEDY(REGISTER_OR_SKIP(*graph, generator));
  graph->capture_begin();
  WITHOUT_REMEDY(register_generator(*graph.release(), generator));  // Never destroyed, as above.
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}
