// An object that takes its parameters' gradient accumulators on the default stream breaks later captures of backward.
//
// A reducer for data-parallel training takes every parameter's AccumulateGrad node when it is built and holds it until
// it is destroyed. So the stream that was current in its constructor decides for good where gradients accumulate, and
// no warm-up on the capturing stream changes that. The holder here is a model of that part of a reducer: buckets,
// communication and hooks are left out, since they play no part in the failure. The real one is in
// ddp_on_default_stream and ddp_on_default_stream_in_python.
//
// Alone:  g++ cases/autograd/grad_holder_built_on_default_stream.cpp $(tools/libtorch --flags) -o grad_holder_built_on_default_stream

#include "fixtures/torch/autograd.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A holder of gradient accumulators built on the default stream breaks captured backward passes",
    .sources = {{"PyTorch documentation", "CUDA semantics: Usage with DistributedDataParallel"},
                {"upstream", "pytorch#180090"}},
    .documented = "A2 node kept alive by Reducer-like holder: 906, then 901",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"autograd", "default stream", "DDP"},
    .features = {"autograd"},
    .fixes = {{"FixBuildOnCapturingStream",
               "Build the DDP reducer, or whatever holds gradient accumulators, under torch.cuda.stream(s), and warm "
               "up and capture on s."}},
};

class Holder {
 public:
  explicit Holder(const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& each : parameters) nodes_.push_back(torch::autograd::impl::grad_accumulator(each));
  }

 private:
  std::vector<GradAccumulator> nodes_;
};

constexpr int kWarmUps = 11;  // As many as DistributedDataParallel needs.

class GradHolderBuiltOnDefaultStream : public AutogradTest {
 protected:
  void SetUp() override {
    AutogradTest::SetUp();
    if (IsSkipped()) return;
    bias = at::zeros({2, 2}, at::kCUDA).set_requires_grad(true);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  std::unique_ptr<Holder> holder_built_on(const c10::cuda::CUDAStream& chosen) {
    const c10::cuda::CUDAStreamGuard guard(chosen);
    return std::make_unique<Holder>(std::vector<at::Tensor>{w, bias});
  }

  void forward_and_backward() { (w * x + bias).sum().backward(); }

  void warm_up() {
    for (int i = 0; i < kWarmUps; ++i) forward_and_backward();
    w.mutable_grad().reset();
    bias.mutable_grad().reset();
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  at::Tensor bias;
};

TEST_F(GradHolderBuiltOnDefaultStream, Control) {
  const auto holder = holder_built_on(stream);
  warm_up();
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(gradient(5), std::vector<double>(4, 5));
}

TEST_F(GradHolderBuiltOnDefaultStream, Reproduces) {
  c10::cuda::CUDAStream chosen = stream;
  TRIGGER(chosen = c10::cuda::getDefaultCUDAStream());
  const auto holder = holder_built_on(chosen);
  warm_up();
  graph->capture_begin();
  const Failure first = failure_of([&] { forward_and_backward(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(GradHolderBuiltOnDefaultStream, FixBuildOnCapturingStream) {
  c10::cuda::CUDAStream chosen = c10::cuda::getDefaultCUDAStream();
  REMEDY(chosen = stream);
  const auto holder = holder_built_on(chosen);
  warm_up();
  graph->capture_begin();
  forward_and_backward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    EXPECT_EQ(gradient(value), std::vector<double>(4, value));
    EXPECT_EQ(values(bias.grad()), std::vector<double>(4, 1));
  }
}
