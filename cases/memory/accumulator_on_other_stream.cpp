// A gradient whose AccumulateGrad node belongs to another stream is kept to the end of the capture.
//
// Autograd hands such a gradient over with record_stream(), and a capture cannot tell when the other stream has done
// with it (record_stream_in_capture). So each backward pass in the capture takes new memory for the gradient, although
// the one before was dropped. The node is made where the parameter is first used, and lives as long as something
// refers to it: a holder built on another stream, or an old loss.
//
// Alone:  g++ cases/memory/accumulator_on_other_stream.cpp $(tools/libtorch --flags) -o accumulator_on_other_stream

#include "fixtures/torch/autograd.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Gradients of a parameter whose AccumulateGrad node is on another stream pile up in a capture",
    .sources = {{"CUDA graph guide", "Memory Issues"}, {"upstream", "pytorch#155398"}},
    .documented = "the node's stream differs from the producer's: record_stream, and memory grows with every step",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "side streams", "DDP", "memory pools"},
    .features = {"autograd", "side streams"},
    .effect = Effect::Leaks,
    .fixes = {{"FixUseTheParameterOnThatStream",
               "Use parameters for the first time, build DDP and warm up on the stream that will capture."},
              {"FixDropTheNode",
               "Delete what keeps the old AccumulateGrad node alive, such as the last loss, before the capture."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kCount = 16 * kMiB;  // 64 MiB of floats.

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class AccumulatorOnOtherStream : public AutogradTest {
 protected:
  void SetUp() override {
    AutogradTest::SetUp();
    if (IsSkipped()) return;
    input = at::ones({kCount}, at::kCUDA);
    weight = at::ones({kCount}, at::kCUDA).set_requires_grad(true);
    ASSERT_CUDA(cudaDeviceSynchronize());
    before = reserved();
  }

  GradAccumulator node_made_on(const c10::cuda::CUDAStream& chosen) const {
    const c10::cuda::CUDAStreamGuard guard(chosen);
    return torch::autograd::impl::grad_accumulator(weight);
  }

  // Three backward passes in one graph, each of which drops its gradient.
  void capture() {
    graph->capture_begin();
    result = at::zeros({1}, at::kCUDA);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor loss = (weight * input).sum();
      loss.backward();
      result.add_(weight.grad().slice(0, 0, 1));
      weight.mutable_grad().reset();
    }
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // To the nearest 16 MiB: small segments are not counted.
  std::string more() const { return text_of((reserved() - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB"; }

  void expect_three_gradients() {
    for (const int value : {5, 7, 9}) {
      input.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>{3.0 * value});
    }
  }

  at::Tensor input, weight, result;
  int64_t before = 0;
};

TEST_F(AccumulatorOnOtherStream, Control) {
  const GradAccumulator kept = node_made_on(stream);
  capture();
  EXPECT_EQ(more(), "64 MiB");
  expect_three_gradients();
}

TEST_F(AccumulatorOnOtherStream, Reproduces) {
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = another_stream());
  const GradAccumulator kept = node_made_on(chosen);
  capture();
  REPRODUCES(more(), "192 MiB", "64 MiB");
}

TEST_F(AccumulatorOnOtherStream, FixUseTheParameterOnThatStream) {
  c10::cuda::CUDAStream chosen = another_stream();
  REMEDY(chosen = stream);
  const GradAccumulator kept = node_made_on(chosen);
  capture();
  EXPECT_EQ(more(), "64 MiB");
  expect_three_gradients();
}

TEST_F(AccumulatorOnOtherStream, FixDropTheNode) {
  GradAccumulator kept = node_made_on(another_stream());
  REMEDY(kept.reset());
  capture();
  EXPECT_EQ(more(), "64 MiB");
  expect_three_gradients();
}
