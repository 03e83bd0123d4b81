// A generator can be neither made nor cloned in a capture.
//
// A generator that is made in a capture cannot have been registered with its graph before. LibTorch refuses to
// construct one, before it calls CUDA. The four documents do not have this failure.
//
// Alone:  g++ cases/rng/generator_made_in_capture.cpp $(tools/libtorch --flags) -o generator_made_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A generator cannot be made or cloned in a capture",
    .sources = {{"PyTorch source", "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: CUDAGeneratorImpl, clone_impl"}},
    .documented = "Cannot construct a new CUDAGeneratorImpl; Cannot call CUDAGeneratorImpl::clone_impl",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes = {{"FixMakeBeforeCapture",
               "Make or clone the generator before the capture; up to 2.13 also call graph.register_generator_state() "
               "for it."}},
};

class GeneratorMadeInCapture : public GeneratorTest {
 protected:
  template <class Call>
  std::string in_capture(Call call) {
    const at::Tensor one = at::ones({1}, at::kCUDA);
    graph->capture_begin();
    const Failure first = failure_of([&] { TRIGGER(call()); });
    one + 1;
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
};

// The generator is cloned outside, and a draw is captured.
TEST_F(GeneratorMadeInCapture, Control) {
  at::Generator copy = generator.clone();
  standard().set_current_seed(kSeed);
  graph->capture_begin();
  const at::Tensor x = draw(standard());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
  EXPECT_EQ(values(draw(copy)), std::vector<double>{216});
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});
}

TEST_F(GeneratorMadeInCapture, Reproduces) {
  const std::string what = in_capture([] { make_cuda_generator(); });
  REPRODUCES(what, "check \"Cannot construct a new CUDAGeneratorImpl during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorMadeInCapture, ReproducesCloning) {
  const std::string what = in_capture([&] { generator.clone(); });
  REPRODUCES(what, "check \"Cannot call CUDAGeneratorImpl::clone_impl during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorMadeInCapture, FixMakeBeforeCapture) {
  REGISTER_OR_SKIP(*graph, generator);
  at::Generator copy;
  REMEDY(copy = generator.clone(); register_generator(*graph, copy));
  graph->capture_begin();
  WITHOUT_REMEDY(copy = generator.clone());
  const at::Tensor x = draw(copy);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
  EXPECT_EQ(values(draw(generator)), std::vector<double>{216});  // The original has not advanced.
}
