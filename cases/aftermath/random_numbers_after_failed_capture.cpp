// After a failed capture the default generator draws no more random numbers.
//
// capture_begin puts the generator into capture mode and capture_end takes it out, but only after CUDA has ended the
// capture without an error. After a failed one the generator still counts offsets for a graph, although nothing
// captures, and refuses every draw until some later capture succeeds. Completing one is also the remedy. The failed
// capture draws no random numbers itself.
//
// Alone:  g++ cases/aftermath/random_numbers_after_failed_capture.cpp $(tools/libtorch --flags) -o random_numbers_after_failed_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "After a failed capture the default generator refuses to give random numbers",
    .sources = {{"upstream", "ACE-Step-1.5#587"}, {"upstream", "pytorch#172390"}, {"upstream", "pytorch#176752"}},
    .documented = "Offset increment outside graph capture encountered unexpectedly.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "generators"},
    .features = {"failed captures", "generators"},
    .fixes = {{"FixCompleteAnotherCapture",
               "Bring another capture to a successful capture_end(), on a fresh stream, to take the generator out of "
               "capture mode."}},
};

class RandomNumbersAfterFailedCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    random_numbers();
  }

  static at::Tensor random_numbers() { return at::randn({8}, at::TensorOptions().device(at::kCUDA)); }

  at::Tensor x;
};

TEST_F(RandomNumbersAfterFailedCapture, Control) {
  graph->capture_begin();
  x.add_(1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_NE(values(random_numbers()), values(random_numbers()));
}

TEST_F(RandomNumbersAfterFailedCapture, Reproduces) {
  graph->capture_begin();
  x.add_(1);
  TRIGGER(failure_of([&] { stream.synchronize(); }));
  failure_of([&] { graph->capture_end(); });
  const Failure random = failure_of([] { random_numbers(); });
  REPRODUCES(random.text, "check \"Offset increment outside graph capture encountered unexpectedly.*\"", "ok");
}

TEST_F(RandomNumbersAfterFailedCapture, FixCompleteAnotherCapture) {
  graph->capture_begin();
  x.add_(1);
  EXPECT_ANY_THROW(stream.synchronize());
  EXPECT_ANY_THROW(graph->capture_end());
  WITHOUT_REMEDY(random_numbers());
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const auto second = make_graph();
  second->capture_begin();
  const at::Tensor captured = random_numbers();
  EXPECT_GT(captured_nodes(c10::cuda::getCurrentCUDAStream()), 0);
  second->capture_end();
  EXPECT_NE(values(random_numbers()), values(random_numbers()));
  second->replay();
  const std::vector<double> before = values(captured);
  second->replay();
  EXPECT_NE(values(captured), before);
}
