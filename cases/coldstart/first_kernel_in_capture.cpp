// A kernel whose first launch is captured is loaded during the capture; would CUDA refuse that?
//
// With CUDA_MODULE_LOADING=LAZY, the default since CUDA 12.2, a kernel is loaded at its first launch. Whether a capture
// permits that depends on the driver: those of CUDA 12.2 refuse to load a module in a capture (900; newton#174 and
// warp#1585 report it), and the newer ones on record load it. The fixes are what helps where one is refused. Nothing
// here has used hypot before. CUDA reads the variable when it starts; each test is a process of its own.
//
// Alone:  g++ cases/coldstart/first_kernel_in_capture.cpp $(tools/libtorch --flags) -o first_kernel_in_capture

#include <cstdlib>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A lazily loaded kernel is launched for the first time in a capture",
    .sources = {{"upstream", "pytorch#99397"}},
    .documented = "not documented; a refusal would read: operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program", "runtime compilation"},
    .fixes = {{"FixWarmUp", "Run the operator once before the capture, so that its kernel is loaded by then."},
              {"FixLoadEagerly",
               "Set CUDA_MODULE_LOADING=EAGER in the environment before the process initializes CUDA."}},
};

class FirstKernelInCapture : public GpuTest {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    setenv("CUDA_MODULE_LOADING", test == "FixLoadEagerly" ? "EAGER" : "LAZY", 1);
    GpuTest::SetUp();
    if (IsSkipped()) return;
    a = at::full({4}, 3.0, at::kCUDA);
    b = at::full({4}, 4.0, at::kCUDA);
  }
  std::string capture() {
    graph->capture_begin();
    const Failure first = failure_of([&] { result = at::hypot(a, b); });
    const std::string status = capture_status(stream);
    EXPECT_TRUE(first.code != 0 || captured_nodes(stream) > 0);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
  void check_replays() {
    for (const int value : {1, 2}) {
      a.fill_(3 * value);
      b.fill_(4 * value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 5 * value));
    }
  }
  at::Tensor a, b, result;
};

TEST_F(FirstKernelInCapture, Control) {
  at::hypot(a, b);
  EXPECT_EQ(capture(), "ok > active > ok");
  check_replays();
}

TEST_F(FirstKernelInCapture, Reproduces) {
  WITHOUT_TRIGGER(at::hypot(a, b));
  REPRODUCES(capture(), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(FirstKernelInCapture, FixWarmUp) {
  REMEDY_STAYS("no release refuses the first launch, so the test holds without it");
  at::hypot(a, b);
  EXPECT_EQ(capture(), "ok > active > ok");
  check_replays();
}

TEST_F(FirstKernelInCapture, FixLoadEagerly) {
  REMEDY_STAYS("no release refuses the first launch, so the test holds without it");
  EXPECT_EQ(capture(), "ok > active > ok");
  check_replays();
}
