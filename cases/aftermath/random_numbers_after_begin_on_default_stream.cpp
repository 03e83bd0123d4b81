// A capture that is refused because it begins on the default stream leaves the program without random numbers.
//
// capture_begin puts the default generator into capture mode before it checks the stream. On the default stream it then
// throws LibTorch's own message, without any CUDA error, and leaves the generator as it is. A program that catches the
// exception and goes on eagerly cannot draw random numbers until some later capture succeeds.
//
// Alone:  g++ cases/aftermath/random_numbers_after_begin_on_default_stream.cpp $(tools/libtorch --flags) -o random_numbers_after_begin_on_default_stream

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture_begin refused on the default stream leaves the default generator in capture mode",
    .sources = {{"upstream", "pytorch#172390"},
                {"PyTorch source", "aten/src/ATen/cuda/CUDAGraph.cpp: capture_begin"},
                {"PyTorch documentation", "CUDA semantics: Constraints"}},
    .documented = "Offset increment outside graph capture encountered unexpectedly.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "generators", "default stream"},
    .features = {"failed captures", "generators"},
    .fixes = {{"FixCompleteAnotherCapture",
               "Complete a capture on a non-default stream, from capture_begin() to capture_end(), before you draw "
               "random numbers again."}},
};

class RandomNumbersAfterBeginOnDefaultStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    random_numbers();
  }

  static at::Tensor random_numbers() { return at::randn({8}, at::TensorOptions().device(at::kCUDA)); }

  // True if the capture was refused, as it must be.
  bool begin_on_default_stream() {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getDefaultCUDAStream());
    return static_cast<bool>(failure_of([&] { graph->capture_begin(); }));
  }
};

TEST_F(RandomNumbersAfterBeginOnDefaultStream, Control) {
  const at::Tensor x = at::full({4}, 1, at::kCUDA);
  graph->capture_begin();
  x.add_(1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_NE(values(random_numbers()), values(random_numbers()));
}

TEST_F(RandomNumbersAfterBeginOnDefaultStream, Reproduces) {
  TRIGGER(ASSERT_TRUE(begin_on_default_stream()));
  const Failure random = failure_of([] { random_numbers(); });
  REPRODUCES(random.text, "check \"Offset increment outside graph capture encountered unexpectedly.*\"", "ok");
}

TEST_F(RandomNumbersAfterBeginOnDefaultStream, FixCompleteAnotherCapture) {
  ASSERT_TRUE(begin_on_default_stream());
  WITHOUT_REMEDY(random_numbers());
  const auto second = make_graph();
  second->capture_begin();
  const at::Tensor captured = random_numbers();
  EXPECT_GT(captured_nodes(stream), 0);
  second->capture_end();
  EXPECT_NE(values(random_numbers()), values(random_numbers()));
  second->replay();
  const std::vector<double> before = values(captured);
  second->replay();
  EXPECT_NE(values(captured), before);
}
