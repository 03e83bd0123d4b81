// Without preserve_rng_state a captured checkpoint drops other elements in the recomputation than in the forward pass.
//
// This is the price of checkpoint_saves_rng_state_in_capture's remedy: the segment draws its numbers twice, and the
// generator has moved on in between. In every replay the gradient then belongs to another dropout mask than the output.
// Elements dropped in the forward pass are zero in y, and those dropped in the recomputation get no gradient; a healthy
// step has the same zeros in both.
//
// Modelled: fixtures/torch/checkpoint.h stands in for torch.utils.checkpoint, which is Python; dropout, autograd and
// the generator are LibTorch's own.
//
// Alone:  g++ cases/checkpoint/dropout_recomputed_in_graph.cpp $(tools/libtorch --flags) -o dropout_recomputed_in_graph

#include "fixtures/torch/checkpoint.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured checkpoint without preserved generator state recomputes with another dropout mask",
    .sources = {{"capture failures", "Activation Checkpointing with RNG State Preservation"}},
    .documented = "dropout and other random operations may produce different values during forward and recomputation",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"checkpointing", "generators", "autograd"},
    .features = {"checkpointing", "generators"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixKeepDropoutOutsideCheckpoint",
          "Move dropout out of the captured checkpoint: call it on the result of checkpoint()."},
         {"FixPreserveRngStateWhereAllowed",
          "Keep preserve_rng_state=True on PyTorch 2.10 and later, where a capture may read and restore the state.",
          ">=2.10"}},
};

class DropoutRecomputedInGraph : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::ones({256}, at::kCUDA).requires_grad_();
    checkpoint.generator = at::cuda::detail::getDefaultCUDAGenerator(0);
    checkpoint.generator.set_current_seed(1234);
    checkpoint.segment = [](const at::Tensor& input) { return at::dropout(input * 3, 0.5, true); };
  }
  // Captures one step and says of two replays whether y and x.grad have the same zeros.
  template <class Step>
  std::string capture_and_compare(Step step) {
    step().sum().backward();  // The warm-up.
    x.mutable_grad() = at::Tensor();
    graph->capture_begin();
    const at::Tensor y = step();
    y.sum().backward();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    graph->replay();
    const std::string once = compare_masks(y, x.grad());
    const std::vector<double> first = values(y);
    graph->replay();
    EXPECT_NE(values(y), first);  // Another replay, another mask.
    return once + ", " + compare_masks(y, x.grad());
  }
  at::Tensor x;
  Checkpoint checkpoint;
};

TEST_F(DropoutRecomputedInGraph, Control) {
  EXPECT_EQ(capture_and_compare([this] { return checkpoint.segment(x); }), "same mask, same mask");
}

TEST_F(DropoutRecomputedInGraph, Reproduces) {
  const std::string masks =
      capture_and_compare([this] { return trigger_on() ? checkpoint(x) : checkpoint.segment(x); });
  REPRODUCES(masks, "another mask, another mask", "same mask, same mask");
}

TEST_F(DropoutRecomputedInGraph, FixKeepDropoutOutsideCheckpoint) {
  std::function<at::Tensor()> step = [this] { return checkpoint(x); };
  REMEDY(
      checkpoint.segment = [](const at::Tensor& input) { return input * 3; };
      step = [this] { return at::dropout(checkpoint(x), 0.5, true); });
  EXPECT_EQ(capture_and_compare(step), "same mask, same mask");
}

// Where a release lets the state be read in a capture, preserving it works in a graph as well. Our own addition.
TEST_F(DropoutRecomputedInGraph, FixPreserveRngStateWhereAllowed) {
  if (!state_readable_in_capture(checkpoint.generator)) {
    NOT_APPLICABLE("this release refuses to read a generator's state in a capture");
  }
  REMEDY(checkpoint.preserve_rng_state = true);
  EXPECT_EQ(capture_and_compare([this] { return checkpoint(x); }), "same mask, same mask");
}
