// Three warm-ups on the side stream before a training step is captured there: once for each graph.
#include <torch/csrc/autograd/autograd.h>

#include "benchmarks/work.h"

namespace recapture {
namespace {

struct Model {
  at::Tensor x = at::randn({64, 256}, at::kCUDA);
  std::vector<at::Tensor> weights{weight(), weight(), weight()};

  static at::Tensor weight() { return (at::randn({256, 256}, at::kCUDA) * 0.05).requires_grad_(); }
  void step() {
    for (at::Tensor& w : weights) w.mutable_grad() = at::Tensor();
    at::Tensor y = x;
    for (const at::Tensor& w : weights) y = at::relu(at::mm(y, w));
    y.sum().backward();
  }
};

Work capture(int warm_ups) {
  const auto model = std::make_shared<Model>();
  model->step();  // The very first one allocates cuBLAS's workspace and starts autograd's thread.
  return [=] {
    for (int i = 0; i < warm_ups; ++i) model->step();
    captured([&] { model->step(); });
    for (at::Tensor& w : model->weights) w.mutable_grad() = at::Tensor();  // It is the graph's memory.
  };
}

const Registered kAll([] {
  price(
      {"accumulate_grad_on_default_stream.FixWarmUpOnCapturingStream",
       "first_use_on_default_stream_in_python.FixWarmUpOnCapturingStream",
       "gradient_tape_on_default_stream.FixWarmUpOnCapturingStream"},
      "a capture of one training step of three layers, with 3 warm-ups before it", Clock::Host,
      [] { return capture(0); }, [] { return capture(3); });
});

}  // namespace
}  // namespace recapture
