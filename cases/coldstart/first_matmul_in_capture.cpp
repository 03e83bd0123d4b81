// The first matrix product of a thread cannot be captured: cuBLAS sets itself up in it.
//
// LibTorch creates a cuBLAS handle for a thread at the thread's first use, and cublasCreate() calls what a capture in
// global mode forbids: in every record the refused call is cuMemFree. A warm-up creates the handle. Warming up the
// forward pass alone is not enough: the backward pass runs on a thread of autograd's, which has no handle.
//
// Alone:  g++ cases/coldstart/first_matmul_in_capture.cpp $(tools/libtorch --flags) -o first_matmul_in_capture

#include <torch/csrc/autograd/autograd.h>

#include "fixtures/cuda/libraries.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A thread's first cuBLAS call in a capture cannot create its handle",
    .sources = {{"upstream", "pytorch#99397"}},
    .documented =
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`; then "
        "CUDA error: operation failed due to a previous error during capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"cuBLAS", "autograd"},
    .features = {"cuBLAS"},
    .fixes =
        {{"FixWarmUp",
          "Run a matrix product once in the capturing thread before the capture, so that its cuBLAS handle exists."},
         {"FixWarmUpOnAnotherStream",
          "Run a matrix product on any stream of the capturing thread, and call torch.cuda.synchronize() before the "
          "capture."},
         {"FixWarmUpForwardAndBackward",
          "Warm up the backward pass as well as the forward, so that autograd's thread has its cuBLAS handle before "
          "the capture."}},
};

class FirstMatmulInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!has_library("cublasCreate_v2", "libcublasLt.so")) GTEST_SKIP() << "cuBLAS is a stub here";
    x = at::full({32, 32}, 1.0, at::kCUDA);
    weight = at::full({32, 32}, 2.0, at::kCUDA).requires_grad_();
    torch::autograd::grad({(x * weight).sum()}, {weight});  // Starts autograd's thread, and no cuBLAS.
  }
  // Captures a product of x with itself, replays it for two inputs and checks the elements, 32 * value * value.
  void capture_and_check() {
    graph->capture_begin();
    const at::Tensor y = at::matmul(x, x);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {2, 3}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y), std::vector<double>(32 * 32, 32 * value * value));
    }
  }
  at::Tensor x, weight;
  static constexpr const char* kDocumented =
      "check \"CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`*\" > invalidated > 901";
};

TEST_F(FirstMatmulInCapture, Control) {
  at::matmul(x, x);
  capture_and_check();
}

TEST_F(FirstMatmulInCapture, Reproduces) {
  WITHOUT_TRIGGER(at::matmul(x, x));
  graph->capture_begin();
  const Failure first = failure_of([&] { at::matmul(x, x); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), kDocumented, "ok > active > ok");
}

TEST_F(FirstMatmulInCapture, ReproducesInBackward) {
  const at::Tensor warm = at::matmul(x, weight).sum();  // This thread's handle; autograd's thread has none yet.
  WITHOUT_TRIGGER(torch::autograd::grad({warm}, {weight}));
  graph->capture_begin();
  const at::Tensor y = at::matmul(x, weight).sum();
  const Failure first = failure_of([&] { torch::autograd::grad({y}, {weight}); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemFree*");
  REPRODUCES(seen(first, status, end), kDocumented, "ok > active > ok");
}

TEST_F(FirstMatmulInCapture, FixWarmUp) {
  REMEDY(at::matmul(x, x));
  capture_and_check();
}

// The handle serves all of the thread's streams. This stream's workspace is then allocated in the capture, from the
// graph's own pool, which is allowed.
TEST_F(FirstMatmulInCapture, FixWarmUpOnAnotherStream) {
  REMEDY({
    const c10::cuda::CUDAStreamGuard other(c10::cuda::getStreamFromPool());
    at::matmul(x, x);
  });
  ASSERT_CUDA(cudaDeviceSynchronize());
  capture_and_check();
}

TEST_F(FirstMatmulInCapture, FixWarmUpForwardAndBackward) {
  const at::Tensor warm = at::matmul(x, weight).sum();
  REMEDY(torch::autograd::grad({warm}, {weight}));
  graph->capture_begin();
  const at::Tensor grad = torch::autograd::grad({at::matmul(x, weight).sum()}, {weight})[0];
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {2, 3}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(grad), std::vector<double>(32 * 32, 32 * value));
  }
}
