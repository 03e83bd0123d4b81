// A backward pass in a capture fails if the tape leads through a node that was made on the default stream.
//
// Autograd runs each node of the tape on the stream that was current when the node was made. y = y + 1 on the default
// stream puts one there, and the gradient of the leaf behind it is accumulated there too. The backward pass in the
// capture reaches that node and makes the default stream wait for the capture, which CUDA refuses (906). The engine has
// run once before, so its threads do not start in the capture. The tape computes grad x = 2x + y and grad leaf = x.
//
// Alone:  g++ cases/autograd/gradient_tape_on_default_stream.cpp $(tools/libtorch --flags) -o gradient_tape_on_default_stream

#include "fixtures/torch/autograd.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A backward pass in a capture fails if its tape has a node made on the default stream",
    .sources = {{"capture failures", "Gradient Tape: Default Stream Conflict"}},
    .documented =
        "cudaErrorStreamCaptureImplicit(906): operation would make the legacy stream depend on a capturing "
        "blocking stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "default stream", "DDP"},
    .features = {"autograd"},
    .fixes =
        {{"FixFirstOperationOnSideStream",
          "Run the first operation on the tensor under torch.cuda.stream(side_stream), not on the default stream."},
         {"FixWarmUpOnCapturingStream",
          "Run the tensor's first operation and the warm-up under torch.cuda.stream(s), and capture with "
          "torch.cuda.graph(graph, stream=s)."},
         {"FixOverrideStaleStream",
          "Redirect nodes of the default stream with torch.autograd.graph.set_override_stale_capture_stream(True) "
          "(from PyTorch 2.13 on).",
          ">=2.13"}},
};

class GradientTapeOnDefaultStream : public AutogradTest {
 protected:
  void SetUp() override {
    AutogradTest::SetUp();
    if (IsSkipped()) return;
    x = at::ones({2, 2}, at::kCUDA).set_requires_grad(true);
    leaf = at::ones({2, 2}, at::kCUDA).set_requires_grad(true);
    y = leaf;
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // The document's first operation on y, on a stream of choice; both streams are idle around it.
  void add_one_on(const c10::cuda::CUDAStream& chosen) {
    ASSERT_CUDA(cudaDeviceSynchronize());
    const c10::cuda::CUDAStreamGuard guard(chosen);
    y = y + 1;
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void forward_and_backward() {
    const at::Tensor z = (x + y) * x;
    z.sum().backward();
  }

  void expect_gradients_of_replays() {
    for (const int value : {5, 7}) {
      x.detach().fill_(value);
      graph->replay();
      EXPECT_EQ(values(leaf.grad()), std::vector<double>(4, value));
      EXPECT_EQ(values(x.grad()), std::vector<double>(4, 2.0 * value + 2));
    }
  }

  at::Tensor leaf, y;
};

TEST_F(GradientTapeOnDefaultStream, Control) {
  add_one_on(stream);
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_gradients_of_replays();
}

TEST_F(GradientTapeOnDefaultStream, Reproduces) {
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getDefaultCUDAStream());
  add_one_on(chosen);
  graph->capture_begin();
  const Failure first = failure_of([&] { forward_and_backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(GradientTapeOnDefaultStream, FixFirstOperationOnSideStream) {
  c10::cuda::CUDAStream chosen = c10::cuda::getDefaultCUDAStream();
  REMEDY(chosen = c10::cuda::getStreamFromPool());
  add_one_on(chosen);
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_gradients_of_replays();
}

TEST_F(GradientTapeOnDefaultStream, FixWarmUpOnCapturingStream) {
  c10::cuda::CUDAStream chosen = c10::cuda::getDefaultCUDAStream();
  REMEDY(chosen = stream);
  add_one_on(chosen);
  for (int i = 0; i < 3; ++i) forward_and_backward();
  x.mutable_grad().reset();
  leaf.mutable_grad().reset();
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_gradients_of_replays();
}

TEST_F(GradientTapeOnDefaultStream, FixOverrideStaleStream) {
  bool redirect = false;
  REMEDY(redirect = true);
  if (!override_stale_capture_stream(redirect)) NOT_APPLICABLE("this release cannot redirect stale nodes");
  add_one_on(c10::cuda::getDefaultCUDAStream());
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  expect_gradients_of_replays();
}
