// Interleaving two graphed callables loses gradients of each of them.
//
// With a weight each, each .grad aliases its own graph's buffer, and both sums are twice the last gradient. With one
// weight for both, .grad is the first callable's buffer: the second callable adds to it, and the first one's next
// replay overwrites the sum. Of g1 + g2 + g2 + g1, g2 + g2 + g1 remains. The report has one callable, and the pull
// request interleaves several with reused buffers; two with buffers of their own are our own addition.
//
// Modelled: fixtures/torch/graphed_callable.h stands in for make_graphed_callables(), which is Python.
// grad_of_python_graphed_callable runs the real one, with one callable.
//
// Alone:  g++ cases/gradient/grads_of_two_callables.cpp $(tools/libtorch --flags) -o grads_of_two_callables

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Two interleaved graphed callables overwrite each other's share of the gradient",
    .sources = {{"gradient aliasing", "Bug description"}, {"gradient aliasing", "PR fix notes"}},
    .documented = "The next backward graph replay overwrites the same static buffer before AccumulateGrad accumulates",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd", "several graphs"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixCloneParameterGradients",
          "Clone the parameter gradients in the backward of every graphed callable that you interleave with others."},
         {"FixCloneParameterGradientsOfOneWeight",
          "Clone a shared weight's gradient in each graphed callable's backward, so that no replay overwrites the "
          "sum."}},
};

class GradsOfTwoCallables : public GraphedScaleTest {
 protected:
  void interleave(const at::Tensor& weight_a, const at::Tensor& weight_b, bool clone) {
    capture(a, weight_a);
    capture(b, weight_b);
    a.clone_parameter_grad = b.clone_parameter_grad = clone;
    step(a, x1);
    step(b, x2);
    step(a, x2);
    step(b, x1);
  }
  GraphedScale a, b;
};

// The first micro-batch runs without a graph, so .grad is neither callable's buffer.
TEST_F(GradsOfTwoCallables, Control) {
  capture(a, weight);
  capture(b, weight);
  (x1 * weight).sum().backward();
  step(b, x2);
  step(a, x2);
  step(b, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{28, 54, 80, 106}));
}

TEST_F(GradsOfTwoCallables, ReproducesWithWeightsOfTheirOwn) {
  const at::Tensor other = make_weight();
  interleave(weight, other, !trigger_on());
  REPRODUCES(text_of(values(weight.grad())) + " and " + text_of(values(other.grad())),
             "{ 22, 44, 66, 88 } and { 6, 10, 14, 18 }", "{ 14, 27, 40, 53 } and { 14, 27, 40, 53 }");
}

TEST_F(GradsOfTwoCallables, ReproducesWithOneWeight) {
  interleave(weight, weight, !trigger_on());
  REPRODUCES(values(weight.grad()), (std::vector<double>{25, 49, 73, 97}), (std::vector<double>{28, 54, 80, 106}));
}

TEST_F(GradsOfTwoCallables, FixCloneParameterGradients) {
  const at::Tensor other = make_weight();
  bool clone = false;
  REMEDY(clone = true);
  interleave(weight, other, clone);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
  EXPECT_EQ(values(other.grad()), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(GradsOfTwoCallables, FixCloneParameterGradientsOfOneWeight) {
  bool clone = false;
  REMEDY(clone = true);
  interleave(weight, weight, clone);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{28, 54, 80, 106}));
}
