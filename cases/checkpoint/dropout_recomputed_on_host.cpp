// Without preserve_rng_state a checkpoint's gradient belongs to another dropout mask than its output.
//
// The same trade-off as in dropout_recomputed_in_graph, with the host's generator and no graph: it comes from the
// checkpoint, and capturing only makes it the price of a remedy. With the state preserved, and the same seed, the
// checkpointed gradient equals the one without a checkpoint, element by element.
//
// Modelled: fixtures/torch/checkpoint.h stands in for torch.utils.checkpoint, which is Python; dropout, autograd and
// the generator are LibTorch's own.
//
// Alone:  g++ cases/checkpoint/dropout_recomputed_on_host.cpp $(tools/libtorch --flags) -o dropout_recomputed_on_host

#include <ATen/CPUGeneratorImpl.h>

#include "fixtures/torch/checkpoint.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A checkpoint without preserved generator state recomputes with another dropout mask",
    .sources = {{"capture failures", "Activation Checkpointing with RNG State Preservation"}},
    .documented = "dropout and other random operations may produce different values during forward and recomputation",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"checkpointing", "generators"},
    .features = {"checkpointing", "generators"},
    .needs = "host",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixPreserveRngState",
               "Leave checkpoint()'s preserve_rng_state at True, so that the recomputation drops the same elements."},
              {"FixKeepDropoutOutsideCheckpoint",
               "Apply dropout to the output of checkpoint() instead of inside the checkpointed function."}},
};

class DropoutRecomputedOnHost : public ::testing::Test {
 protected:
  DropoutRecomputedOnHost() {
    checkpoint.generator = at::detail::getDefaultCPUGenerator();
    checkpoint.segment = [](const at::Tensor& input) { return at::dropout(input * 3, 0.5, true); };
  }
  at::Tensor step(bool checkpointed) {
    checkpoint.generator.set_current_seed(1234);
    x.mutable_grad() = at::Tensor();
    const at::Tensor y = checkpointed ? checkpoint(x) : checkpoint.segment(x);
    y.sum().backward();
    return y;
  }
  at::Tensor x = at::ones({256}).requires_grad_();
  Checkpoint checkpoint;
};

TEST_F(DropoutRecomputedOnHost, Control) {
  const at::Tensor y = step(false);
  EXPECT_EQ(compare_masks(y, x.grad()), "same mask");
}

TEST_F(DropoutRecomputedOnHost, Reproduces) {
  WITHOUT_TRIGGER(checkpoint.preserve_rng_state = true);
  const at::Tensor y = step(true);
  REPRODUCES(compare_masks(y, x.grad()), "another mask", "same mask");
}

TEST_F(DropoutRecomputedOnHost, FixPreserveRngState) {
  const at::Tensor plain = step(false);
  const std::vector<double> grad = values(x.grad());
  REMEDY(checkpoint.preserve_rng_state = true);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(values(step(true)), values(plain));
    EXPECT_EQ(values(x.grad()), grad);
  }
}

TEST_F(DropoutRecomputedOnHost, FixKeepDropoutOutsideCheckpoint) {
  std::function<at::Tensor()> forward = [this] { return checkpoint(x); };
  REMEDY(
      checkpoint.segment = [](const at::Tensor& input) { return input * 3; };
      forward = [this] { return at::dropout(checkpoint(x), 0.5, true); });
  for (int round = 0; round < 2; ++round) {
    x.mutable_grad() = at::Tensor();
    const at::Tensor y = forward();
    y.sum().backward();
    EXPECT_EQ(compare_masks(y, x.grad()), "same mask");
  }
}
