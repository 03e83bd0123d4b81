// Reentrant checkpointing refuses to run under autograd.grad(), and under backward() with inputs.
//
// Its backward calls the engine from within the engine, to send the gradient through the recomputed segment. The leaves
// of that inner graph are not among the outer call's inputs, so grad() could not return their gradients; the engine
// knows which of the two it runs, and the checkpoint asks it. The calls are the same on a GPU, and nothing here is
// captured: graphs meet this failure only because a graphed callable calls grad().
//
// Modelled: the text is raised by fixtures/torch/checkpoint.h, in the place of torch.utils.checkpoint.
// ReproducesInTheEngineItself shows the answer of LibTorch's engine, and checkpoint_in_python_graphed_callable runs the
// real checkpoint.
//
// Alone:  g++ cases/checkpoint/reentrant_checkpoint_under_grad.cpp $(tools/libtorch --flags) -o reentrant_checkpoint_under_grad

#include "fixtures/torch/checkpoint.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Reentrant activation checkpointing is refused under autograd.grad()",
    .sources = {{"capture failures", "Partial Graphing with Reentrant Activation Checkpointing"}},
    .documented =
        "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
        "'inputs' parameter to .backward()",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"checkpointing", "graphed callables"},
    .features = {"checkpointing"},
    .needs = "host",
    .fixes =
        {{"FixCheckpointWithoutReentrance",
          "Pass use_reentrant=False to checkpoint(), so that torch.autograd.grad() can differentiate through it."}},
};

class ReentrantCheckpointUnderGrad : public ::testing::Test {
 protected:
  ReentrantCheckpointUnderGrad() {
    exp_segment(x, weight).sum().backward();
    expected_x = values(x.grad());
    expected_weight = values(weight.grad());
    x.mutable_grad() = at::Tensor();
    weight.mutable_grad() = at::Tensor();
  }
  at::Tensor x = at::tensor({1, 2, 3, 4}, at::kFloat).requires_grad_();
  at::Tensor weight = at::tensor({0.5, 0.25, -0.5, -1.0}, at::kFloat).requires_grad_();
  Checkpoint checkpoint{[this](const at::Tensor& input) { return exp_segment(input, weight); }};
  std::vector<double> expected_x, expected_weight;
  const std::string documented =
      "check \"When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an *\"";
};

TEST_F(ReentrantCheckpointUnderGrad, Control) {
  checkpoint(x).sum().backward();
  EXPECT_EQ(checkpoint.engine, "valid");
  EXPECT_EQ(values(x.grad()), expected_x);
  EXPECT_EQ(values(weight.grad()), expected_weight);
}

TEST_F(ReentrantCheckpointUnderGrad, Reproduces) {
  const at::Tensor y = checkpoint(x).sum();
  WITHOUT_TRIGGER(y.backward());
  const Failure first = failure_of([&] {
    TRIGGER(torch::autograd::grad({y}, {x, weight}, {}, {}, false, /*allow_unused=*/true));
  });
  REPRODUCES(first.text, documented, "ok");
}

TEST_F(ReentrantCheckpointUnderGrad, ReproducesWithInputsOfBackward) {
  const at::Tensor y = checkpoint(x).sum();
  WITHOUT_TRIGGER(torch::autograd::backward({y}));
  const Failure first = failure_of([&] { TRIGGER(torch::autograd::backward({y}, {}, {}, false, {x})); });
  REPRODUCES(first.text, documented, "ok");
}

TEST_F(ReentrantCheckpointUnderGrad, ReproducesInTheEngineItself) {
  const at::Tensor y = checkpoint(x).sum();
  WITHOUT_TRIGGER(y.backward());
  failure_of([&] { TRIGGER(torch::autograd::grad({y}, {x})); });
  REPRODUCES(checkpoint.engine, "invalid", "valid");
}

TEST_F(ReentrantCheckpointUnderGrad, FixCheckpointWithoutReentrance) {
  for (int round = 0; round < 2; ++round) {
    at::Tensor y;
    REMEDY(y = exp_checkpointed_without_reentrance(x, weight).sum());
    WITHOUT_REMEDY(y = checkpoint(x).sum());
    const std::vector<at::Tensor> grads = torch::autograd::grad({y}, {x, weight});
    EXPECT_EQ(values(grads[0]), expected_x);
    EXPECT_EQ(values(grads[1]), expected_weight);
  }
}
