// A leaf's AccumulateGrad node that was made on the default stream and is still alive breaks a captured backward pass.
//
// A leaf holds its node only weakly: the first autograd graph that needs the node makes it, and it lives as long as
// something else holds it. An old loss or a hook that holds it across warm-up and capture keeps its stream as well. If
// that is the default stream, the captured backward pass makes the default stream wait for the capture (906). Nothing
// else here touches the default stream, and dropping the node before the capture is enough: the next backward pass
// makes a new one on the right stream.
//
// Alone:  g++ cases/autograd/accumulate_grad_on_default_stream.cpp $(tools/libtorch --flags) -o accumulate_grad_on_default_stream

#include "fixtures/torch/autograd.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An AccumulateGrad node made on the default stream and kept alive breaks a captured backward pass",
    .sources = {{"capture failures", "Gradient Tape: Default Stream Conflict"}, {"upstream", "pytorch#180090"}},
    .documented =
        "cudaErrorStreamCaptureImplicit(906): operation would make the legacy stream depend on a capturing "
        "blocking stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "default stream", "DDP"},
    .features = {"autograd"},
    .fixes =
        {{"FixDropTheNode",
          "Before the capture, release all that keeps the AccumulateGrad node alive, such as an old loss ('del loss') "
          "or a hook."},
         {"FixMakeTheNodeOnSideStream",
          "Run what first makes the AccumulateGrad node, such as the first forward pass, under "
          "torch.cuda.stream(side_stream)."},
         {"FixMakeTheNodeOnPerThreadStream",
          "Make the AccumulateGrad node on cudaStreamPerThread, which, unlike the legacy default stream, can take part "
          "in a capture."},
         {"FixWarmUpOnCapturingStream",
          "Warm up under torch.cuda.stream(s), and capture on the same stream with torch.cuda.graph(graph, stream=s)."},
         {"FixOverrideStaleStream",
          "From PyTorch 2.13 on, call torch.autograd.graph.set_override_stale_capture_stream(True) before the "
          "capture.",
          ">=2.13"}},
};

class AccumulateGradOnDefaultStream : public AutogradTest {
 protected:
  GradAccumulator node_made_on(const c10::cuda::CUDAStream& chosen) {
    const c10::cuda::CUDAStreamGuard guard(chosen);
    return torch::autograd::impl::grad_accumulator(w);
  }

  void capture_and_expect_gradients() {
    graph->capture_begin();
    backward();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {5, 7}) EXPECT_EQ(gradient(value), std::vector<double>(4, value));
  }
};

TEST_F(AccumulateGradOnDefaultStream, Control) {
  const GradAccumulator kept = node_made_on(stream);
  capture_and_expect_gradients();
}

TEST_F(AccumulateGradOnDefaultStream, Reproduces) {
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getDefaultCUDAStream());
  const GradAccumulator kept = node_made_on(chosen);
  graph->capture_begin();
  const Failure first = failure_of([&] { (w * x).sum().backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(AccumulateGradOnDefaultStream, ReproducesWithOldLoss) {
  at::Tensor loss;
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    TRIGGER(c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream()));
    loss = (w * x).sum();  // Never run backward, and still there during the capture.
  }
  ASSERT_CUDA(cudaDeviceSynchronize());
  graph->capture_begin();
  const Failure first = failure_of([&] { (w * x).sum().backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(AccumulateGradOnDefaultStream, FixDropTheNode) {
  GradAccumulator kept = node_made_on(c10::cuda::getDefaultCUDAStream());
  REMEDY(kept.reset());
  capture_and_expect_gradients();
}

TEST_F(AccumulateGradOnDefaultStream, FixMakeTheNodeOnSideStream) {
  c10::cuda::CUDAStream chosen = c10::cuda::getDefaultCUDAStream();
  REMEDY(chosen = c10::cuda::getStreamFromPool());
  const GradAccumulator kept = node_made_on(chosen);
  capture_and_expect_gradients();
}

// A default stream by name only: the handle stands for each thread's own stream, and none of these is the legacy one.
TEST_F(AccumulateGradOnDefaultStream, FixMakeTheNodeOnPerThreadStream) {
  c10::cuda::CUDAStream chosen = c10::cuda::getDefaultCUDAStream();
  REMEDY(chosen = c10::cuda::getStreamFromExternal(cudaStreamPerThread, 0));
  const GradAccumulator kept = node_made_on(chosen);
  capture_and_expect_gradients();
}

TEST_F(AccumulateGradOnDefaultStream, FixWarmUpOnCapturingStream) {
  at::Tensor loss;
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    WITHOUT_REMEDY(c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream()));
    for (int i = 0; i < 3; ++i) {
      loss = (w * x).sum();
      loss.backward();
    }
  }
  w.mutable_grad().reset();
  ASSERT_CUDA(cudaDeviceSynchronize());
  capture_and_expect_gradients();  // The last loss keeps its node alive, and the node is on the right stream.
}

TEST_F(AccumulateGradOnDefaultStream, FixOverrideStaleStream) {
  bool redirect = false;
  REMEDY(redirect = true);
  if (!override_stale_capture_stream(redirect)) NOT_APPLICABLE("this release cannot redirect stale nodes");
  const GradAccumulator kept = node_made_on(c10::cuda::getDefaultCUDAStream());
  capture_and_expect_gradients();
}
