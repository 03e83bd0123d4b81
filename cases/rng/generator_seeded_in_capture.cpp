// Seeding a generator is refused in a capture.
//
// A replay takes the seed that the generator has just before it, so a seed set in the capture would be lost. Up to 2.9
// set_current_seed() is always refused, from 2.10 on only where the seed differs from the generator's. seed(), which
// takes a new one from the system, is always refused. The four documents do not have this failure.
//
// Alone:  g++ cases/rng/generator_seeded_in_capture.cpp $(tools/libtorch --flags) -o generator_seeded_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Seeding a generator is refused in a capture",
    .sources = {{"upstream", "pytorch#162505"}, {"PyTorch source", "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: seed"}},
    .documented =
        "Cannot call CUDAGeneratorImpl::set_current_seed; CUDAGeneratorImpl::set_current_seed can be called during "
        "stream capture only if new seed is the same as the original seed.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes = {{"FixSeedBetweenReplays",
               "Call torch.cuda.manual_seed() between replays; the next replay draws from the new seed."}},
};

class GeneratorSeededInCapture : public GeneratorTest {
 protected:
  void SetUp() override {
    GeneratorTest::SetUp();
    if (IsSkipped()) return;
    from = standard();
    from.set_current_seed(kSeed);
  }
  template <class Call>
  std::string in_capture(Call call) {
    graph->capture_begin();
    const Failure first = failure_of([&] { TRIGGER(call()); });
    draw(from);
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
  at::Generator from;  // The default generator.
};

TEST_F(GeneratorSeededInCapture, Control) {
  graph->capture_begin();
  const at::Tensor x = draw(from);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{840, 565, 216, 574}));
}

TEST_F(GeneratorSeededInCapture, ReproducesWithOtherSeed) {
  const std::string what = in_capture([&] { from.set_current_seed(4321); });
  REPRODUCES(what, "check \"*CUDAGeneratorImpl::set_current_seed *\" > active > ok", "ok > active > ok");
}

TEST_F(GeneratorSeededInCapture, ReproducesWithSameSeed) {
  const std::string what = in_capture([&] { from.set_current_seed(kSeed); });
  REPRODUCES(what, "check \"Cannot call CUDAGeneratorImpl::set_current_seed during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorSeededInCapture, ReproducesWithNewSeed) {
  const std::string what = in_capture([&] { from.seed(); });
  REPRODUCES(what, "check \"Cannot call CUDAGeneratorImpl::seed during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorSeededInCapture, FixSeedBetweenReplays) {
  graph->capture_begin();
  WITHOUT_REMEDY(from.set_current_seed(4321));
  const at::Tensor x = draw(from);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const uint64_t seed : {kSeed, uint64_t{4321}, kSeed}) {
    REMEDY(from.set_current_seed(seed));
    EXPECT_EQ(replay(*graph, x, 3), eager(seed, 0, 3));
  }
}
