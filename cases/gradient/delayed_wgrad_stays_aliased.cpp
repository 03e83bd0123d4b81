// A parameter whose weight gradient is computed later keeps its .grad in the graph's buffer, even with the remedy.
//
// TransformerEngine clones no gradient of a parameter marked skip_backward_post_hook: a later call, backward_dw(),
// computes the real one and adds it to main_grad, which belongs to the parameter. A program that reads .grad of such a
// parameter reads the graph's memory, and accumulates it wrongly; main_grad is right.
//
// Modelled: that the mark keeps the alias is a switch of the fixture, set as the pull request says; what LibTorch then
// makes of .grad is real. Reading main_grad is our own addition. transformer_engine_wgrad runs TransformerEngine's
// code.
//
// Alone:  g++ cases/gradient/delayed_wgrad_stays_aliased.cpp $(tools/libtorch --flags) -o delayed_wgrad_stays_aliased

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
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
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
    add_weight_gradient();  // The warm-up.
    main_grad.zero_();
    backward_dw = make_graph();
    backward_dw->capture_begin();
    add_weight_gradient();
    EXPECT_GT(captured_nodes(stream), 0);
    backward_dw->capture_end();
  }
  // Made of what the forward and the backward graph leave in their static buffers, until they are replayed again.
  void add_weight_gradient() { main_grad += (graphed.x.detach() * graphed.grad_y).sum(0); }

  GraphedScale graphed;
  at::Tensor main_grad;
  std::unique_ptr<Graph> backward_dw;
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
    backward_dw->replay();
  }
  at::Tensor grad = weight.grad();
  REMEDY(grad = main_grad);
  EXPECT_EQ(values(grad), (std::vector<double>{14, 27, 40, 53}));
}
