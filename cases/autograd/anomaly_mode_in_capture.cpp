// In anomaly mode the engine reads each gradient's NaN check on the host, which breaks a captured backward pass.
//
// torch.autograd.set_detect_anomaly(True) is switched on to find where a NaN comes from. After each node of a backward
// pass the engine then asks whether the node's gradients have a NaN, and waits for the answer: an item() of PyTorch's
// own, which a capture refuses (900), in the engine's thread. The forward pass can be captured. With check_nan=False
// the mode keeps the stack of the forward operator alone, and the backward pass can be captured, too.
//
// Alone:  g++ cases/autograd/anomaly_mode_in_capture.cpp $(tools/libtorch --flags) -o anomaly_mode_in_capture

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A backward pass cannot be captured in autograd's anomaly mode, which reads NaN checks on the host",
    .sources = {{"PyTorch source", "torch/csrc/autograd/engine.cpp: validate_outputs"}},
    .documented = "isnan(output)._is_any_true().item<bool>() for each output of a node: 900 in a capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "host reads"},
    .features = {"autograd"},
    .fixes = {{"FixWithoutTheNanCheck",
               "Call torch.autograd.set_detect_anomaly(True, check_nan=False) where a backward pass is captured."},
              {"FixOffInTheCapture", "Use anomaly mode in eager steps alone, and switch it off before the capture."}},
};

using torch::autograd::AnomalyMode;

class AnomalyModeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({1}, 3.0, at::kCUDA).requires_grad_();
    weight = at::full({1}, 1.0, at::kCUDA);
    AnomalyMode::set_enabled(true);
    step();  // Loads the kernels, starts the engine's threads, and makes what item() copies into.
    AnomalyMode::set_enabled(false);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  void TearDown() override {
    AnomalyMode::set_enabled(false);
    GpuTest::TearDown();
  }

  // No AccumulateGrad, whose stream is a failure of its own. The gradient is 6 * weight.
  void step() { gradient = torch::autograd::grad({x * x}, {x}, {weight})[0]; }

  std::string capture() {
    graph->capture_begin();
    const Failure first = failure_of([&] { step(); });
    const std::string status = capture_status(stream);
    nodes = captured_nodes(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }
  void check_replays() {
    EXPECT_GT(nodes, 0);
    for (const int value : {5, 7}) {
      weight.fill_(value);
      graph->replay();
      EXPECT_EQ(values(gradient)[0], 6 * value);
    }
  }

  at::Tensor x, weight, gradient;
  int nodes = -1;
};

constexpr char kCaptured[] = "ok > active > ok";

TEST_F(AnomalyModeInCapture, ControlEager) {
  AnomalyMode::set_enabled(true);
  step();
  EXPECT_EQ(values(gradient)[0], 6);
}

TEST_F(AnomalyModeInCapture, Control) {
  ASSERT_EQ(capture(), kCaptured);
  check_replays();
}

TEST_F(AnomalyModeInCapture, ControlForward) {
  AnomalyMode::set_enabled(true);
  graph->capture_begin();
  const at::Tensor y = x * weight;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    weight.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y)[0], 3 * value);
  }
}

TEST_F(AnomalyModeInCapture, Reproduces) {
  TRIGGER(AnomalyMode::set_enabled(true));
  const std::string found = capture();
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(found, "900 > invalidated > 901", kCaptured);
}

TEST_F(AnomalyModeInCapture, FixWithoutTheNanCheck) {
  bool check_nan = true;
  REMEDY(check_nan = false);
  AnomalyMode::set_enabled(true, check_nan);
  ASSERT_EQ(capture(), kCaptured);
  check_replays();
}

TEST_F(AnomalyModeInCapture, FixOffInTheCapture) {
  AnomalyMode::set_enabled(true);
  REMEDY(AnomalyMode::set_enabled(false));
  ASSERT_EQ(capture(), kCaptured);
  check_replays();
}
