// Zeroing a gradient that already aliases the graph's buffer doubles every later gradient.
//
// Where .grad exists before the first backward pass, gradients are added to it and it is never replaced: that is a
// work-around. Zeroing .grad in place after the first pass is none: it is the graph's buffer by then, the replay fills
// it again, and AccumulateGrad adds the buffer to itself: 2 * g1 after a single micro-batch. The report sets .grad to
// None; zeroing in place, and the work-arounds other than the clone, are our own addition.
//
// Modelled: fixtures/torch/graphed_callable.h stands in for make_graphed_callables(), which is Python.
// grad_of_python_graphed_callable runs the real one.
//
// Alone:  g++ cases/gradient/stolen_grad_zeroed_in_place.cpp $(tools/libtorch --flags) -o stolen_grad_zeroed_in_place

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Zeroing an aliased gradient in place doubles the next one",
    .sources = {{"gradient aliasing", "Bug description"}, {"upstream", "pytorch#181723"}},
    .documented = "This makes the accumulated gradient become g2 + g2",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
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

// The first pass runs without the graph, so what is zeroed is not the graph's buffer.
TEST_F(StolenGradZeroedInPlace, Control) {
  (x2 * weight).sum().backward();
  weight.mutable_grad().zero_();
  step(graphed, x1);
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
  REMEDY(weight.mutable_grad() = at::zeros_like(weight));
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

// One micro-batch a step, and no .grad in between: AccumulateGrad steals the buffer each time, and nothing adds to it.
TEST_F(StolenGradZeroedInPlace, FixSetToNoneBetweenSingleSteps) {
  step(graphed, x2);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{11, 22, 33, 44}));
  REMEDY(weight.mutable_grad() = at::Tensor());
  WITHOUT_REMEDY(weight.mutable_grad().zero_());
  step(graphed, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
}
