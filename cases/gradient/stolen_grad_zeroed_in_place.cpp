// Zeroing a gradient that already aliases the graph's buffer doubles every later gradient.
//
// A gradient that is there before the first backward pass is added to and never replaced: that is the work-around.
// Zeroing in place after the first pass is not. The .grad that is zeroed then is the graph's buffer; the replay fills
// it again, and AccumulateGrad adds the buffer to itself: 2 * g1 after a single micro-batch.
//
// Alone:  g++ cases/gradient/stolen_grad_zeroed_in_place.cpp $(ci/libtorch --flags) -o stolen_grad_zeroed_in_place

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Zeroing an aliased gradient in place doubles the next one",
    .sources = {{"gradient aliasing", "Bug description"}, {"upstream", "pytorch#181723"}},
    .documented = "This makes the accumulated gradient become g2 + g2",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixPreallocateGradients",
               "Set param.grad = torch.zeros_like(param) before the first backward(); you may then zero that tensor in "
               "place."},
              {"FixCloneParameterGradients",
               "Clone the parameter gradients in Graphed.backward(), so that zero_() clears .grad and not the graph's "
               "buffer."},
              {"FixSetToNoneBetweenSingleSteps",
               "Use zero_grad(set_to_none=True) and a single backward() per step, instead of zeroing .grad in place."}},
};

class StolenGradZeroedInPlace : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (!IsSkipped()) capture(graphed, weight);
  }
  GraphedScale graphed;
};

TEST_F(StolenGradZeroedInPlace, Control) {
  (x2 * weight).sum().backward();
  weight.mutable_grad().zero_();
  (x1 * weight).sum().backward();
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
}

TEST_F(StolenGradZeroedInPlace, Reproduces) {
  WITHOUT_TRIGGER(weight.mutable_grad() = at::zeros_like(weight));
  step(graphed, x2);
  weight.mutable_grad().zero_();
  step(graphed, x1);
  REPRODUCES(values(weight.grad()), (std::vector<double>{6, 10, 14, 18}), (std::vector<double>{3, 5, 7, 9}));
}

TEST_F(StolenGradZeroedInPlace, FixPreallocateGradients) {
  weight.mutable_grad() = at::zeros_like(weight);
  for (int round = 0; round < 2; ++round) {
    step(graphed, x2);
    weight.mutable_grad().zero_();
    step(graphed, x1);
    EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
    weight.mutable_grad().zero_();
  }
}

TEST_F(StolenGradZeroedInPlace, FixCloneParameterGradients) {
  REMEDY(graphed.clone_parameter_grad = true);
  step(graphed, x2);
  weight.mutable_grad().zero_();
  step(graphed, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
}

// One micro-batch a step, and .grad undefined in between: each theft is of a buffer just written.
TEST_F(StolenGradZeroedInPlace, FixSetToNoneBetweenSingleSteps) {
  step(graphed, x2);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{11, 22, 33, 44}));
  weight.mutable_grad() = at::Tensor();
  step(graphed, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
}
