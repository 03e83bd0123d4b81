// An AccumulateGrad node made on the per-thread default stream is another stream on each thread that runs it.
//
// The node remembers the handle cudaStreamPerThread, and the handle means the calling thread's own stream. The caller
// made the node, autograd's thread runs it, so the stream that joins the capture is one that the caller never used. It
// is a default stream by name, and the documented rule would have it refused with 906; but it is not the legacy stream,
// and the test tells which of both counts.
//
// Alone:  g++ cases/capture/accumulate_grad_on_per_thread_stream.cpp $(ci/libtorch 2.15.0 --flags) -o accumulate_grad_on_per_thread_stream

#include "fixtures/autograd.h"
#include "harness/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An AccumulateGrad node made on the per-thread default stream is stale in a captured backward pass",
    .sources = {{"capture failures", "Gradient Tape: Default Stream Conflict"}, {"upstream", "A1"}},
    .documented = "cudaErrorStreamCaptureImplicit(906) for a node made on the default stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
};

class AccumulateGradOnPerThreadStream : public AutogradTest {
 protected:
  GradAccumulator node_made_on(const c10::cuda::CUDAStream& chosen) {
    const c10::cuda::CUDAStreamGuard guard(chosen);
    return torch::autograd::impl::grad_accumulator(w);
  }
};

TEST_F(AccumulateGradOnPerThreadStream, Control) {
  const GradAccumulator kept = node_made_on(stream);
  graph->capture_begin();
  backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(gradient(5), std::vector<double>(4, 5));
}

TEST_F(AccumulateGradOnPerThreadStream, Reproduces) {
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getStreamFromExternal(cudaStreamPerThread, 0));
  const GradAccumulator kept = node_made_on(chosen);
  graph->capture_begin();
  const Failure first = failure_of([&] { (w * x).sum().backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(AccumulateGradOnPerThreadStream, FixDropTheNode) {
  GradAccumulator kept = node_made_on(c10::cuda::getStreamFromExternal(cudaStreamPerThread, 0));
  kept.reset();
  graph->capture_begin();
  backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) EXPECT_EQ(gradient(value), std::vector<double>(4, value));
}
