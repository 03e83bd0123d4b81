// A parameter whose weight gradient is computed later keeps its .grad in the graph's buffer, remedy or not.
//
// Parameters marked skip_backward_post_hook are left out of the remedy, since what the graph returns for them is a
// dummy: a later call computes the real gradient and adds it to main_grad, a buffer of the parameter's own. A program
// that reads .grad of such a parameter reads the graph's memory, and accumulates it wrongly; main_grad is right.
//
// Alone:  g++ cases/gradient/delayed_wgrad_stays_aliased.cpp $(ci/libtorch --flags) -o delayed_wgrad_stays_aliased

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A parameter with a delayed weight gradient keeps the alias",
    .sources = {{"gradient aliasing", "PR fix notes"}, {"upstream", "TransformerEngine#2937"}},
    .documented =
        "preserving the existing aliasing behavior for delayed-wgrad parameters marked with skip_backward_post_hook",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixReadMainGrad",
               "Read main_grad after backward_dw(), not .grad, for parameters marked skip_backward_post_hook."}},
};

class DelayedWgradStaysAliased : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (IsSkipped()) return;
    capture(graphed, weight);
    graphed.clone_parameter_grad = true;
    main_grad = at::zeros({4}, at::kCUDA);
  }
  // The delayed half of a backward pass: the real gradient, of an incoming gradient of ones.
  void backward_dw(const at::Tensor& x) { main_grad += x.sum(0); }

  GraphedScale graphed;
  at::Tensor main_grad;
};

TEST_F(DelayedWgradStaysAliased, Control) {
  step(graphed, x1);
  step(graphed, x2);
  EXPECT_NE(weight.grad().data_ptr(), graphed.grad_weight.data_ptr());
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(DelayedWgradStaysAliased, Reproduces) {
  TRIGGER(graphed.skip_backward_post_hook = true);
  step(graphed, x1);
  step(graphed, x2);
  const bool aliased = weight.grad().data_ptr() == graphed.grad_weight.data_ptr();
  REPRODUCES((aliased ? "the graph's buffer: " : "its own buffer: ") + text_of(values(weight.grad())),
             "the graph's buffer: { 22, 44, 66, 88 }", "its own buffer: { 14, 27, 40, 53 }");
}

TEST_F(DelayedWgradStaysAliased, FixReadMainGrad) {
  graphed.skip_backward_post_hook = true;
  for (const at::Tensor& x : {x1, x2}) {
    step(graphed, x);
    backward_dw(x);
  }
  EXPECT_EQ(values(main_grad), (std::vector<double>{14, 27, 40, 53}));
}
