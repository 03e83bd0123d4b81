// A parameter that has no gradient when the optimizer's step is captured is never trained.
//
// step() visits the parameters that have a .grad while it is captured. One that gets its first gradient later, such as
// a second head, an expert that no token reached, or a layer that is unfrozen, is not in the graph: each replay leaves
// it as it was, whatever its .grad is.
//
// Alone:  g++ cases/training/parameter_without_gradient_at_capture.cpp $(tools/libtorch --flags) -o parameter_without_gradient_at_capture

#include <torch/optim/sgd.h>

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A parameter that has no gradient when the optimizer's step is captured is never trained",
    .sources = {{"upstream", "dion#108"}},
    .documented = "a parameter without a gradient at the capture is not in the graph, and is silently skipped",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer"},
    .features = {"optimizer"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixGradientOfZeros",
               "Give every parameter a .grad before the capture, of zeros where it has none, and write later gradients "
               "into it."},
              {"FixCaptureAgain", "Capture the step again once a parameter has its first gradient."}},
};

class ParameterWithoutGradientAtCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    trained = at::zeros({4}, at::kCUDA).requires_grad_(true);
    late = at::zeros({4}, at::kCUDA).requires_grad_(true);
    trained.mutable_grad() = at::ones({4}, at::kCUDA);
    optimizer = std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{trained, late}, /*lr=*/1.0);
  }
  void capture() {
    graph = make_graph();
    graph->capture_begin();
    optimizer->step();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }
  // A gradient of ones, in the tensor that the capture read if there is one.
  void give_gradient() {
    if (late.grad().defined()) {
      late.mutable_grad().fill_(1);
    } else {
      late.mutable_grad() = at::ones({4}, at::kCUDA);
    }
  }
  std::vector<double> after_replays(int times) {
    for (int i = 0; i < times; ++i) graph->replay();
    return {values(trained)[0], values(late)[0]};
  }

  at::Tensor trained, late;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

TEST_F(ParameterWithoutGradientAtCapture, ControlEager) {
  give_gradient();
  for (int i = 0; i < 2; ++i) optimizer->step();
  EXPECT_EQ(values(late)[0], -2);
}

TEST_F(ParameterWithoutGradientAtCapture, Control) {
  give_gradient();
  capture();
  EXPECT_EQ(after_replays(2), (std::vector<double>{-2, -2}));
}

TEST_F(ParameterWithoutGradientAtCapture, Reproduces) {
  WITHOUT_TRIGGER(give_gradient());
  capture();
  give_gradient();
  REPRODUCES(after_replays(2), (std::vector<double>{-2, 0}), (std::vector<double>{-2, -2}));
}

TEST_F(ParameterWithoutGradientAtCapture, FixGradientOfZeros) {
  REMEDY(late.mutable_grad() = at::zeros({4}, at::kCUDA));
  capture();
  give_gradient();
  EXPECT_EQ(after_replays(2), (std::vector<double>{-2, -2}));
}

TEST_F(ParameterWithoutGradientAtCapture, FixCaptureAgain) {
  capture();
  give_gradient();
  REMEDY(capture());
  EXPECT_EQ(after_replays(2), (std::vector<double>{-2, -2}));
}
