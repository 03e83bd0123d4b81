// Reading or setting the offset of a generator is refused in a capture.
//
// The offset says how far a generator has advanced. Eager code keeps it on the host; a replay reads it from device
// memory. The host's number in a capture would be wrong for every replay, so LibTorch refuses both calls. The four
// documents do not have this failure.
//
// Alone:  g++ cases/rng/generator_offset_in_capture.cpp $(tools/libtorch --flags) -o generator_offset_in_capture

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A generator's offset can be neither read nor set in a capture",
    .sources = {{"upstream", "pytorch#98965"},
                {"PyTorch source", "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: get_offset, set_offset"}},
    .documented = "Cannot call CUDAGeneratorImpl::get_offset; Cannot call CUDAGeneratorImpl::set_offset",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"generators"},
    .features = {"generators"},
    .fixes = {{"FixSetBetweenReplays",
               "Call get_offset() and set_offset() on the generator between replays, not inside the capture."}},
};

class GeneratorOffsetInCapture : public GeneratorTest {
 protected:
  template <class Call>
  std::string in_capture(Call call) {
    at::Generator from = standard();
    graph->capture_begin();
    const Failure first = failure_of([&] { TRIGGER(call(from)); });
    draw(from);
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
};

// The offset is read and set outside, and a draw is captured.
TEST_F(GeneratorOffsetInCapture, Control) {
  EXPECT_EQ(generator.get_offset(), 2 * kOffsetPerDraw);
  generator.set_offset(0);
  EXPECT_EQ(values(draw(generator)), std::vector<double>{840});
  standard().set_current_seed(kSeed);
  graph->capture_begin();
  const at::Tensor x = draw(standard());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{840, 565}));
}

TEST_F(GeneratorOffsetInCapture, ReproducesReading) {
  const std::string what = in_capture([](at::Generator& from) { from.get_offset(); });
  REPRODUCES(what, "check \"Cannot call CUDAGeneratorImpl::get_offset during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorOffsetInCapture, ReproducesSetting) {
  const std::string what = in_capture([](at::Generator& from) { from.set_offset(0); });
  REPRODUCES(what, "check \"Cannot call CUDAGeneratorImpl::set_offset during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorOffsetInCapture, FixSetBetweenReplays) {
  REGISTER_OR_SKIP(*graph, generator);
  graph->capture_begin();
  WITHOUT_REMEDY(generator.set_offset(0));
  const at::Tensor x = draw(generator);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));
  EXPECT_EQ(generator.get_offset(), 4 * kOffsetPerDraw);  // A replay advances the host's number as well.
  REMEDY(generator.set_offset(0));
  EXPECT_EQ(replay(*graph, x, 3), (std::vector<double>{840, 565, 216}));
}
