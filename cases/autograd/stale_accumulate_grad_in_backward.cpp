// PyTorch warns once if an AccumulateGrad node runs on another stream than its gradient, and a captured backward pass
// fails.
//
// From 2.10 on autograd compares the stream of each AccumulateGrad node with the stream that made the incoming gradient
// and warns if they differ, in a capture or not; earlier releases say nothing. The warning is given once in a process
// and reaches the thread that called backward(). The eager variant needs no capture: it shows what a program could have
// read before it captured. The variant in a capture shows that the warning does not replace the failure.
//
// Alone:  g++ cases/autograd/stale_accumulate_grad_in_backward.cpp $(tools/libtorch --flags) -o stale_accumulate_grad_in_backward

#include "fixtures/torch/autograd.h"
#include "fixtures/torch/warnings.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "PyTorch warns once if an AccumulateGrad node runs on another stream than its gradient",
    .sources = {{"upstream", "pytorch#166136"}, {"upstream", "pytorch#180090"}},
    .documented =
        "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming "
        "gradient, once; then 906",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "default stream", "side streams", "DDP"},
    .features = {"autograd"},
    .effects = {{"ReproducesEagerly", Effect::Warns}},
    .fixes = {{"FixDropTheNode",
               "Delete references to earlier autograd graphs ('del loss') before the capture, so that backward() makes "
               "a new AccumulateGrad node."}},
};

constexpr char kWarning[] = "AccumulateGrad node's stream does not match";

class StaleAccumulateGradInBackward : public AutogradTest {
 protected:
  GradAccumulator node_made_on(const c10::cuda::CUDAStream& chosen) {
    const c10::cuda::CUDAStreamGuard guard(chosen);
    return torch::autograd::impl::grad_accumulator(w);
  }
};

TEST_F(StaleAccumulateGradInBackward, Control) {
  const Warnings warnings;
  const GradAccumulator kept = node_made_on(stream);
  graph->capture_begin();
  backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(warnings.count_with(kWarning), 0);
  EXPECT_EQ(gradient(5), std::vector<double>(4, 5));
}

TEST_F(StaleAccumulateGradInBackward, ReproducesEagerly) {
  const Warnings warnings;
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getDefaultCUDAStream());
  const GradAccumulator kept = node_made_on(chosen);
  for (int i = 0; i < 3; ++i) backward();
  REPRODUCES(std::to_string(warnings.count_with(kWarning)) + " > " + warnings.first_with(kWarning),
             "1 > The AccumulateGrad node's stream does not match the stream of the node that produced the incoming *",
             "0 > no warning");
}

TEST_F(StaleAccumulateGradInBackward, ReproducesInCapture) {
  const Warnings warnings;
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getDefaultCUDAStream());
  const GradAccumulator kept = node_made_on(chosen);
  graph->capture_begin();
  const Failure first = failure_of([&] { (w * x).sum().backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(std::to_string(warnings.count_with(kWarning)) + " > " + seen(first, status, end),
             "1 > 906 > invalidated > 901", "0 > ok > active > ok");
}

TEST_F(StaleAccumulateGradInBackward, FixDropTheNode) {
  const Warnings warnings;
  GradAccumulator kept = node_made_on(c10::cuda::getDefaultCUDAStream());
  REMEDY(kept.reset());
  graph->capture_begin();
  backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(warnings.count_with(kWarning), 0);
  for (const int value : {5, 7}) EXPECT_EQ(gradient(value), std::vector<double>(4, value));
}
