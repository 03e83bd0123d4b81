// Activation checkpointing that preserves the generator's state fails in a capture.
//
// With preserve_rng_state a checkpoint reads the generator's state before its segment runs and restores it before the
// segment is computed again, so that dropout drops the same elements. Up to 2.9 LibTorch refuses to read the state in a
// capture; from 2.10 on it allows both, and the captured recomputation draws the same numbers. Not preserving the state
// costs nothing where the segment draws no random numbers.
//
// Modelled: fixtures/torch/checkpoint.h stands in for torch.utils.checkpoint, which is Python; the refusal is
// LibTorch's own. checkpoint_in_python_capture runs the real one.
//
// Alone:  g++ cases/checkpoint/checkpoint_saves_rng_state_in_capture.cpp $(tools/libtorch --flags) -o checkpoint_saves_rng_state_in_capture

#include "fixtures/torch/checkpoint.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Checkpointing with preserve_rng_state reads the generator's state and is refused in a capture",
    .sources = {{"capture failures", "Activation Checkpointing with RNG State Preservation"},
                {"upstream", "pytorch#162505"}},
    .documented = "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"checkpointing", "generators", "autograd"},
    .features = {"checkpointing"},
    .fixes = {{"FixDoNotPreserveRngState",
               "Pass preserve_rng_state=False to checkpoint() if the checkpointed function draws no random numbers."}},
};

class CheckpointSavesRngStateInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::tensor({1, 2, 3, 4}, at::kFloat).to(at::kCUDA).requires_grad_();
    weight = at::tensor({0.5, 0.25, -0.5, -1.0}, at::kFloat).to(at::kCUDA).requires_grad_();
    checkpoint.segment = [this](const at::Tensor& input) { return exp_segment(input, weight); };
    checkpoint.generator = at::cuda::detail::getDefaultCUDAGenerator(0);
    checkpoint.preserve_rng_state = true;
    step();  // The warm-up.
    clear();
  }
  void step() { checkpoint(x).sum().backward(); }
  // After a step was captured: each replay must give the weight's gradient for what x then holds.
  void expect_right_replays() {
    const at::Tensor grad = weight.grad();  // In the graph's memory; each replay writes it anew.
    for (int round = 0; round < 2; ++round) {
      graph->replay();
      EXPECT_EQ(values(grad), expected());
      x.detach().add_(1);
    }
  }
  void clear() {
    x.mutable_grad() = at::Tensor();
    weight.mutable_grad() = at::Tensor();
  }
  std::vector<double> expected() {
    return values(torch::autograd::grad({exp_segment(x.detach(), weight).sum()}, {weight})[0]);
  }
  at::Tensor x, weight;
  Checkpoint checkpoint;
};

// Outside a capture the state may be preserved, and without a checkpoint the segment may be captured.
TEST_F(CheckpointSavesRngStateInCapture, Control) {
  step();
  EXPECT_EQ(values(weight.grad()), expected());
  clear();
  graph->capture_begin();
  checkpoint.segment(x).sum().backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_right_replays();
}

TEST_F(CheckpointSavesRngStateInCapture, Reproduces) {
  checkpoint.preserve_rng_state = trigger_on();
  graph->capture_begin();
  const Failure first = failure_of([&] { step(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(CheckpointSavesRngStateInCapture, FixDoNotPreserveRngState) {
  if (breaks_remedies() && state_readable_in_capture(checkpoint.generator)) {
    NOT_APPLICABLE("this release needs no remedy: it lets a generator's state be read in a capture");
  }
  REMEDY(checkpoint.preserve_rng_state = false);
  graph->capture_begin();
  step();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_right_replays();
}
