// The remedy for gradient aliasing: a clone of every parameter's gradient after the replay that made it.
//
// A graph writes a number of gradients of a given size, one kernel each; a real backward pass computes more, so the
// clones' share of it is smaller.
#include "benchmarks/work.h"

namespace recapture {
namespace {

Work replay(int64_t parameters, int64_t bytes, bool clone) {
  std::vector<at::Tensor> gradients(parameters), copies(parameters);
  for (at::Tensor& gradient : gradients) gradient = at::zeros({bytes / 4}, at::kCUDA);
  const auto graph = captured([&] {
    for (at::Tensor& gradient : gradients) gradient.fill_(1);
  });
  return [=]() mutable {
    graph->replay();
    for (int64_t i = 0; clone && i < parameters; ++i) copies[i] = gradients[i].clone();
  };
}

const Registered kAll([] {
  constexpr int64_t kKib = 1 << 10, kMib = 1 << 20;
  constexpr int64_t kSizes[][2] = {{1, 4 * kKib},   {1, 64 * kMib},   {100, 4 * kKib},
                                   {100, 1 * kMib}, {1000, 4 * kKib}, {1000, 1 * kMib}};
  for (const auto& [parameters, bytes] : kSizes) {
    const std::string size =
        bytes < kMib ? std::to_string(bytes / kKib) + " KiB" : std::to_string(bytes / kMib) + " MiB";
    price(
        {"accumulate_grad_steals_alias.FixCloneParameterGradients",
         "grad_aliases_static_buffer.FixCloneParameterGradients", "grad_over_micro_batches.FixCloneParameterGradients",
         "grad_overwritten_before_hook.FixCloneParameterGradients", "grad_points_into_graph.FixCloneParameterGradients",
         "grads_of_two_callables.FixCloneParameterGradients", "param_grad_in_reused_buffer.FixCloneParameterGradients",
         "retained_grad_after_replay.FixCloneParameterGradients",
         "stolen_grad_zeroed_in_place.FixCloneParameterGradients"},
        ("a replay that writes " + counted(parameters, "gradient") + " of " + size).c_str(), Clock::Gpu,
        [=, p = parameters, b = bytes] { return replay(p, b, false); },
        [=, p = parameters, b = bytes] { return replay(p, b, true); });
  }
});

}  // namespace
}  // namespace recapture
