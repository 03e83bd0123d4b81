// An operator whose kernel LibTorch compiles at run time could not be used for the first time in a capture.
//
// Some operators have no kernel in the library: at their first use, for each type, LibTorch compiles one with NVRTC and
// loads it into the context. Compiling is work of the host alone, but loading a module during a capture was refused.
// The report is of older releases and drivers: no release tried here refuses it. gcd is such an operator. The cache of
// compiled kernels on disk is switched off: it would save the compilation, but not the loading.
//
// Alone:  g++ cases/coldstart/first_runtime_compilation_in_capture.cpp $(tools/libtorch --flags) -o first_runtime_compilation_in_capture

#include <cstdlib>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A kernel compiled at run time cannot be loaded in a capture",
    .sources = {{"upstream", "pytorch#99397"}},
    .documented = "Compiling jit code while creating a cuda graph breaks jit",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"runtime compilation"},
    .features = {"runtime compilation"},
    .fixes = {{"FixWarmUp",
               "Run the operator once with the same dtypes before the capture, so that its kernel is compiled and "
               "loaded by then."}},
};

class FirstRuntimeCompilationInCapture : public GpuTest {
 protected:
  void SetUp() override {
    setenv("USE_PYTORCH_KERNEL_CACHE", "0", 1);
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!nvrtc().reason.empty()) GTEST_SKIP() << "no NVRTC: " << nvrtc().reason;
    a = at::full({4}, 12, at::TensorOptions().device(at::kCUDA).dtype(at::kInt));
    b = at::full({4}, 18, at::TensorOptions().device(at::kCUDA).dtype(at::kInt));
  }
  void capture_and_check() {
    graph->capture_begin();
    const at::Tensor divisor = at::gcd(a, b);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {27, 8}) {
      a.fill_(value);
      graph->replay();
      EXPECT_EQ(values(divisor), std::vector<double>(4, value == 27 ? 9 : 2));
    }
  }
  at::Tensor a, b;
};

TEST_F(FirstRuntimeCompilationInCapture, Control) {
  at::gcd(a, b);
  capture_and_check();
}

TEST_F(FirstRuntimeCompilationInCapture, Reproduces) {
  WITHOUT_TRIGGER(at::gcd(a, b));
  graph->capture_begin();
  const Failure first = failure_of([&] { at::gcd(a, b); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuModuleLoadData*");
  REPRODUCES(seen(first, status, end),
             "check \"*CUDA driver error: operation not permitted when stream is capturing*\" > invalidated > 901",
             "ok > active > ok");
}

// Another type is another kernel: the warm-up has to use the capture's types.
TEST_F(FirstRuntimeCompilationInCapture, ReproducesAfterWarmUpOfAnotherType) {
  at::gcd(a.to(at::kLong), b.to(at::kLong));
  WITHOUT_TRIGGER(at::gcd(a, b));
  graph->capture_begin();
  const Failure first = failure_of([&] { at::gcd(a, b); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuModuleLoadData*");
  REPRODUCES(seen(first, status, end),
             "check \"*CUDA driver error: operation not permitted when stream is capturing*\" > invalidated > 901",
             "ok > active > ok");
}

TEST_F(FirstRuntimeCompilationInCapture, FixWarmUp) {
  REMEDY_STAYS("no release that was tried refuses the first use, so the test holds without it");
  at::gcd(a, b);
  capture_and_check();
}
