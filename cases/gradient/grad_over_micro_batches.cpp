// Over n micro-batches a graphed callable accumulates twice the last gradient, whatever n is.
//
// Micro-batch i has the gradient 2 * i * i, so the sum should be n(n + 1)(2n + 1) / 3. With the alias, each replay
// overwrites the sum so far, and AccumulateGrad adds the buffer to itself: 4 * n * n from n = 2 on. That is 16 instead
// of 10, 36 instead of 28 and, as n grows, too little: 256 instead of 408. A single micro-batch is right, so training
// without accumulation shows nothing. The report has two micro-batches; three and eight, and preallocating, are our own
// addition.
//
// Modelled: fixtures/torch/graphed_callable.h stands in for make_graphed_callables(), which is Python.
// grad_of_python_graphed_callable runs the real one.
//
// Alone:  g++ cases/gradient/grad_over_micro_batches.cpp $(tools/libtorch --flags) -o grad_over_micro_batches

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Gradients accumulated over n micro-batches are twice the last one",
    .sources = {{"gradient aliasing", "Bug description"}, {"gradient aliasing", "Expected behavior"}},
    .documented = "This makes the accumulated gradient become g2 + g2 instead of g1 + g2",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixCloneParameterGradients",
          "Clone the parameter gradients that the graphed backward returns, so that micro-batches add up correctly."},
         {"FixPreallocateGradients",
          "Set each param.grad to torch.zeros_like(param) before the first micro-batch, so that all of them are added "
          "to it."}},
};

class GradOverMicroBatches : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (!IsSkipped()) capture(graphed, weight);
  }
  std::vector<double> accumulate(int n) {
    for (int i = 1; i <= n; ++i) step(graphed, at::full_like(x1, i * i));
    return values(weight.grad());
  }
  static std::vector<double> four_times(double value) { return std::vector<double>(4, value); }
  GraphedScale graphed;
};

// The first micro-batch runs without the graph, so .grad is not the graph's buffer.
TEST_F(GradOverMicroBatches, Control) {
  (at::full_like(x1, 1) * weight).sum().backward();
  for (int i = 2; i <= 8; ++i) {
    step(graphed, at::full_like(x1, i * i));
    EXPECT_EQ(values(weight.grad()), four_times(i * (i + 1) * (2 * i + 1) / 3));
  }
}

TEST_F(GradOverMicroBatches, ControlOneMicroBatch) { EXPECT_EQ(accumulate(1), four_times(2)); }

TEST_F(GradOverMicroBatches, ReproducesTwo) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  REPRODUCES(accumulate(2), four_times(16), four_times(10));
}

TEST_F(GradOverMicroBatches, ReproducesThree) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  REPRODUCES(accumulate(3), four_times(36), four_times(28));
}

TEST_F(GradOverMicroBatches, ReproducesEight) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  REPRODUCES(accumulate(8), four_times(256), four_times(408));
}

TEST_F(GradOverMicroBatches, FixCloneParameterGradients) {
  REMEDY(graphed.clone_parameter_grad = true);
  EXPECT_EQ(accumulate(8), four_times(408));
}

TEST_F(GradOverMicroBatches, FixPreallocateGradients) {
  REMEDY(weight.mutable_grad() = at::zeros_like(weight));
  EXPECT_EQ(accumulate(8), four_times(408));
}
