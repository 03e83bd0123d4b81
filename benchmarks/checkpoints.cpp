// Activation checkpointing: the generator's state preserved or not, with and without reentrance.
//
// The checkpoint of fixtures/torch/checkpoint.h. torch.utils.checkpoint is Python, and slower.
#include "benchmarks/work.h"
#include "fixtures/torch/checkpoint.h"

namespace recapture {
namespace {

struct Step {
  at::Tensor x = at::ones({1024}, at::kCUDA).requires_grad_(), weight = at::ones({1024}, at::kCUDA).requires_grad_();
  Checkpoint checkpoint{};

  explicit Step(bool preserve) {
    checkpoint.segment = [weight = weight](const at::Tensor& input) { return exp_segment(input, weight); };
    checkpoint.generator = at::cuda::detail::getDefaultCUDAGenerator(0);
    checkpoint.preserve_rng_state = preserve;
  }
  void run(bool reentrant) {
    x.mutable_grad() = weight.mutable_grad() = at::Tensor();
    (reentrant ? checkpoint(x) : exp_checkpointed_without_reentrance(x, weight)).sum().backward();
  }
};

Work training_step(bool preserve, bool reentrant = true) {
  return [step = std::make_shared<Step>(preserve), reentrant] { step->run(reentrant); };
}

const Registered kAll([] {
  constexpr const char* kStep = "a training step with one small checkpoint, outside a graph";
  price(
      {"checkpoint_saves_rng_state_in_capture.FixDoNotPreserveRngState"}, kStep, Clock::Gpu,
      [] { return training_step(true); }, [] { return training_step(false); });
  price(
      {"dropout_recomputed_in_graph.FixPreserveRngStateWhereAllowed"}, kStep, Clock::Gpu,
      [] { return training_step(false); }, [] { return training_step(true); });
  price(
      {"reentrant_checkpoint_in_graphed_callable.FixCheckpointWithoutReentrance",
       "reentrant_checkpoint_under_grad.FixCheckpointWithoutReentrance"},
      kStep, Clock::Gpu, [] { return training_step(false); }, [] { return training_step(false, false); });
});

}  // namespace
}  // namespace recapture
