// A gradient that a program keeps changes its value when the graph is replayed for the next micro-batch.
//
// The program does what zero_grad(set_to_none=True) does: it takes .grad, sets it to None and goes on. The tensor that
// it kept is a view of the graph's static buffer, so the next backward pass overwrites it. Gradient statistics, delayed
// reductions and optimisers that hold on to a gradient all see the later one.
//
// Modelled: fixtures/torch/graphed_callable.h stands in for make_graphed_callables(), which is Python.
// grad_of_python_graphed_callable runs the real one.
//
// Alone:  g++ cases/gradient/retained_grad_after_replay.cpp $(tools/libtorch --flags) -o retained_grad_after_replay

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A retained parameter gradient is overwritten by the next replay",
    .sources = {{"gradient aliasing", "PR fix notes"}},
    .documented = "This can corrupt retained grads",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCloneParameterGradients",
               "Return clones of the parameter gradients from Graphed.backward(), so that a gradient you keep is your "
               "own."}},
};

class RetainedGradAfterReplay : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (!IsSkipped()) capture(graphed, weight);
  }
  at::Tensor take() {
    const at::Tensor grad = weight.grad();
    weight.mutable_grad() = at::Tensor();
    return grad;
  }
  GraphedScale graphed;
};

// Nothing is kept beyond the next replay.
TEST_F(RetainedGradAfterReplay, Control) {
  step(graphed, x1);
  EXPECT_EQ(values(take()), (std::vector<double>{3, 5, 7, 9}));
  step(graphed, x2);
  EXPECT_EQ(values(take()), (std::vector<double>{11, 22, 33, 44}));
}

TEST_F(RetainedGradAfterReplay, Reproduces) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  const at::Tensor first = take();
  EXPECT_EQ(values(first), (std::vector<double>{3, 5, 7, 9}));
  step(graphed, x2);
  REPRODUCES(values(first), (std::vector<double>{11, 22, 33, 44}), (std::vector<double>{3, 5, 7, 9}));
}

TEST_F(RetainedGradAfterReplay, FixCloneParameterGradients) {
  REMEDY(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  const at::Tensor first = take();
  step(graphed, x2);
  EXPECT_EQ(values(first), (std::vector<double>{3, 5, 7, 9}));
  EXPECT_EQ(values(take()), (std::vector<double>{11, 22, 33, 44}));
}
