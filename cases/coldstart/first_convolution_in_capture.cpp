// The first convolution of a thread cannot be captured: cuDNN sets itself up in it.
//
// As with cuBLAS (first_matmul_in_capture), LibTorch creates a cuDNN handle for a thread at its first use, and the
// library allocates and frees memory of its own, outside LibTorch's allocator, which a capture in global mode forbids.
// The report names the matrix product only; the same cold start with cuDNN is our addition. The kernel adds up 3 by 3
// elements, so that every element of the result is nine times the input's.
//
// Alone:  g++ cases/coldstart/first_convolution_in_capture.cpp $(tools/libtorch --flags) -o first_convolution_in_capture

#include "fixtures/cuda/libraries.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A thread's first cuDNN call in a capture cannot create its handle",
    .sources = {{"upstream", "pytorch#99397"}},
    .documented = "Cuda graphs fail if the library is not initialized",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"cuDNN"},
    .features = {"cuDNN"},
    .fixes = {{"FixWarmUp",
               "Run the same convolution once in the same thread before the capture, so that cuDNN is set up."}},
};

class FirstConvolutionInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!has_library("cudnnCreate", "libcudnn_graph.so") && !has_library("cudnnCreate", "libcudnn_cnn_infer.so")) {
      GTEST_SKIP() << "cuDNN is a stub here";
    }
    x = at::ones({1, 8, 16, 16}, at::kCUDA);
    kernel = at::ones({8, 1, 3, 3}, at::kCUDA).expand({8, 8, 3, 3}).contiguous() / 8;
  }
  at::Tensor convolve() { return at::conv2d(x, kernel); }
  void capture_and_check() {
    graph->capture_begin();
    const at::Tensor y = convolve();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {2, 3}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y.round()), std::vector<double>(8 * 14 * 14, 9 * value));
    }
  }
  at::Tensor x, kernel;
};

TEST_F(FirstConvolutionInCapture, Control) {
  convolve();
  capture_and_check();
}

TEST_F(FirstConvolutionInCapture, Reproduces) {
  WITHOUT_TRIGGER(convolve());
  graph->capture_begin();
  const Failure first = failure_of([&] { convolve(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMem*");  // cuMemAlloc with LibTorch 2.6, cuMemFree with 2.11 and 2.15.
  REPRODUCES(seen(first, status, end),
             "check \"cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED\" > invalidated > 901",
             "ok > active > ok");
}

TEST_F(FirstConvolutionInCapture, FixWarmUp) {
  REMEDY(convolve());
  capture_and_check();
}
