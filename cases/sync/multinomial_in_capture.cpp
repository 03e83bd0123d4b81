// A multinomial() that draws once, or without replacement, invalidates the capture that it happens in.
//
// Both take a short path that checks the weights first and reads the answer back to the host. Drawing several times
// with replacement takes another path, whose check stays on the GPU. Weights with all their mass in one place make
// every draw certain, so that the fixes have values to compare.
//
// Alone:  g++ cases/sync/multinomial_in_capture.cpp $(tools/libtorch --flags) -o multinomial_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "multinomial() checks its weights on the host and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}, {"upstream", "pytorch#134442"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "generators"},
    .features = {"host reads"},
    .fixes = {{"FixDrawTwiceWithReplacement",
               "Call multinomial() with num_samples=2 and replacement=True, whose check stays on the GPU, and use one "
               "of the draws."},
              {"FixDivideByExponential",
               "Draw with (weights / torch.empty_like(weights).exponential_(1)).argmax() instead of multinomial()."}},
};

class MultinomialInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    weights = at::tensor({0.0f, 0.0f, 1.0f}, at::kCUDA);
    at::multinomial(weights, 1, /*replacement=*/true);
    at::multinomial(weights, 1, /*replacement=*/false);
    at::multinomial(weights, 2, /*replacement=*/true);
  }

  void put_all_weight_on(int place) {
    weights.zero_();
    weights.slice(0, place, place + 1).fill_(1);
  }

  at::Tensor weights;
};

TEST_F(MultinomialInCapture, Control) {
  const at::Tensor drawn = at::multinomial(weights, 1, /*replacement=*/true);
  graph->capture_begin();
  const at::Tensor result = drawn + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{3});
}

TEST_F(MultinomialInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor doubled = weights * 2;
  const Failure first = failure_of([&] { TRIGGER(at::multinomial(doubled, 1, /*replacement=*/true)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(MultinomialInCapture, ReproducesWithoutReplacement) {
  graph->capture_begin();
  const at::Tensor doubled = weights * 2;
  const Failure first = failure_of([&] { TRIGGER(at::multinomial(doubled, 1, /*replacement=*/false)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(MultinomialInCapture, FixDrawTwiceWithReplacement) {
  int draws = 1;
  REMEDY(draws = 2);
  graph->capture_begin();
  const at::Tensor drawn = at::multinomial(weights, draws, /*replacement=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {0, 1}) {
    put_all_weight_on(place);
    graph->replay();
    EXPECT_EQ(values(drawn), std::vector<double>(draws, place));
  }
}

TEST_F(MultinomialInCapture, FixDivideByExponential) {
  graph->capture_begin();
  WITHOUT_REMEDY(at::multinomial(weights, 1, /*replacement=*/true));
  const at::Tensor drawn = (weights / at::empty_like(weights).exponential_(1)).argmax();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int place : {0, 1}) {
    put_all_weight_on(place);
    graph->replay();
    EXPECT_EQ(values(drawn), std::vector<double>{1.0 * place});
  }
}
