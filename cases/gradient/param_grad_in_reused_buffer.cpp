// Callables that share reused buffers overwrite each other's parameter gradients unless these are cloned.
//
// To save memory, a callable's gradient buffer goes back to the pool right after its capture, and the next callable's
// capture takes it. That is sound as long as the gradient leaves the callable as a copy. Otherwise the first
// parameter's .grad is the shared buffer, and one backward pass of the other callable overwrites it.
//
// Modelled: fixtures/torch/graphed_callable.h stands in for TransformerEngine's wrapper, which
// transformer_engine_on_gpu runs.
//
// Alone:  g++ cases/gradient/param_grad_in_reused_buffer.cpp $(tools/libtorch --flags) -o param_grad_in_reused_buffer

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Without the clone, reused buffers give one parameter the gradient of another",
    .sources = {{"gradient aliasing", "PR fix notes"}, {"upstream", "TransformerEngine#2937"}},
    .documented = "a later replay of another callable sharing reused buffers may overwrite what .grad holds",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd", "several graphs", "memory pools"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCloneParameterGradients",
               "Return clones of the parameter gradients from every graphed callable that shares reused buffers with "
               "others."}},
};

class ParamGradInReusedBuffer : public GraphedScaleTest {
 protected:
  // Captures both callables in one pool; with `reuse`, the second gradient takes the place of the first.
  void capture_both(bool reuse) {
    other = make_weight();
    a.capture_forward(weight, x1);
    b.capture_forward(other, x1, a.forward->pool());
    a.capture_backward();
    if (reuse) {
      a.hold_parameter_grad_weakly();
      a.grad_x = at::empty_like(x1);  // The input's buffer goes back as well, so that both captures start alike.
    }
    b.capture_backward();
    ASSERT_EQ(a.grad_weight.data_ptr() == b.grad_weight.data_ptr(), reuse);
  }
  void clone(bool on) { a.clone_parameter_grad = b.clone_parameter_grad = on; }

  at::Tensor other;
  GraphedScale a, b;
};

TEST_F(ParamGradInReusedBuffer, Control) {
  capture_both(false);
  step(a, x1);
  step(b, x2);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  EXPECT_EQ(values(other.grad()), (std::vector<double>{11, 22, 33, 44}));
}

TEST_F(ParamGradInReusedBuffer, Reproduces) {
  capture_both(true);
  clone(!trigger_on());
  step(a, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  step(b, x2);
  REPRODUCES(values(weight.grad()), (std::vector<double>{11, 22, 33, 44}), (std::vector<double>{3, 5, 7, 9}));
}

TEST_F(ParamGradInReusedBuffer, FixCloneParameterGradients) {
  capture_both(true);
  REMEDY(clone(true));
  for (int round = 1; round <= 2; ++round) {
    step(a, x1);
    step(b, x2);
    EXPECT_EQ(values(weight.grad() / round), (std::vector<double>{3, 5, 7, 9}));
    EXPECT_EQ(values(other.grad() / round), (std::vector<double>{11, 22, 33, 44}));
  }
}
