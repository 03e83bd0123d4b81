// Random numbers in the body of a conditional node are refused, and the graph is lost with them.
//
// A graph advances the generator by a number that is known when it is captured. How often a body runs is known in the
// replay alone, so dropout or sampling in a branch of torch.cond cannot be counted. LibTorch reports it as the body
// ends. The error leaves the graph's capture open.
//
// Alone:  g++ cases/rng/random_numbers_in_conditional_body.cpp $(tools/libtorch --flags) -o random_numbers_in_conditional_body

#include <string>

#include "fixtures/torch/conditional.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Random numbers in a branch of torch.cond cannot be captured",
    .sources = {{"upstream", "pytorch#168912"}},
    .documented = "RNG within data-dependent conditional nodes is not supported yet.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"conditional nodes", "generators", "torch.compile"},
    .features = {"conditional nodes"},
    .fixes = {{"FixDrawBeforeTheBranch",
               "Draw the random numbers outside of the branch, and pass them in as an operand."}},
};

class RandomNumbersInConditionalBody : public ConditionalTest {
 protected:
  void SetUp() override {
    ConditionalTest::SetUp();
    if (IsSkipped()) return;
    out = at::zeros({4}, at::kCUDA);
    out.add_(at::rand({4}, at::kCUDA));
    out.zero_();
    stream.synchronize();
  }

  // Adds numbers that are drawn in the body, or before it.
  std::string capture(bool draws_in_body) {
    graph->capture_begin();
    const Failure first = failure_of([&] {
      at::Tensor numbers;
      if (!draws_in_body) numbers = at::rand({4}, at::kCUDA);
      captured_if(condition, [&] {
        if (draws_in_body) numbers = at::rand({4}, at::kCUDA);
        out.copy_(numbers + 1);
      });
    });
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
  // Two replays have different numbers, and a condition that is false leaves the output alone.
  void check_replays() {
    graph->replay();
    const std::vector<double> first = values(out);
    graph->replay();
    EXPECT_NE(values(out), first);
    for (const double value : first) EXPECT_GE(value, 1);
    condition.fill_(false);
    out.zero_();
    graph->replay();
    EXPECT_EQ(values(out), std::vector<double>(4, 0));
  }

  at::Tensor out;
};

constexpr char kHealthy[] = "ok > active > ok";

TEST_F(RandomNumbersInConditionalBody, Control) {
  ASSERT_EQ(capture(/*draws_in_body=*/false), kHealthy);
  check_replays();
}

TEST_F(RandomNumbersInConditionalBody, Reproduces) {
  bool draws_in_body = false;
  TRIGGER(draws_in_body = true);
  REPRODUCES(capture(draws_in_body),
             "check \"RNG within data-dependent conditional nodes is not supported yet.\" > active > ok", kHealthy);
}

TEST_F(RandomNumbersInConditionalBody, FixDrawBeforeTheBranch) {
  bool draws_in_body = true;
  REMEDY(draws_in_body = false);
  ASSERT_EQ(capture(draws_in_body), kHealthy);
  check_replays();
}
