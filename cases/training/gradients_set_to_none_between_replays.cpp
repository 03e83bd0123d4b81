// zero_grad() between the replays of a captured backward pass leaves the optimizer without gradients: nothing trains.
//
// Forward and backward are in the graph, and step() is eager. The captured backward writes the memory of the .grad
// tensors that existed in the capture. zero_grad(), which drops .grad by default, takes the program's reference away; a
// replay fills the memory again, but assigns no .grad. step() skips parameters without a gradient, so it does nothing,
// without an error: the loss stays where it is.
//
// Alone:  g++ cases/training/gradients_set_to_none_between_replays.cpp $(tools/libtorch --flags) -o gradients_set_to_none_between_replays

#include <torch/optim/sgd.h>

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "zero_grad() between replays drops the gradients that a captured backward pass writes: nothing trains",
    .sources = {{"upstream", "torchtitan#4436"}},
    .documented = "zero_grad() sets .grad to None, and the graph owns the gradients: the optimizer has none",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autograd", "optimizer"},
    .features = {"autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepTheTensors",
               "Keep the .grad tensors: zero_grad(set_to_none=False), or no zero_grad() where the graph writes the "
               "gradients and does not add to them."},
              {"FixAssignThemAgain",
               "Keep a list of the .grad tensors from the capture, and assign them again after each replay."}},
};

class GradientsSetToNoneBetweenReplays : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    weight = at::zeros({4}, at::kCUDA).requires_grad_(true);
    x = at::ones({4}, at::kCUDA);
    optimizer = std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{weight}, /*lr=*/1.0);
    backward();
    stream.synchronize();
    weight.mutable_grad().reset();
    graph->capture_begin();
    backward();
    graph->capture_end();
    gradient = weight.grad();
  }
  void backward() { (weight * x).sum().backward(); }

  // The weight after each step of SGD with a rate of 1. The gradient is the input.
  template <class Before, class After>
  std::vector<double> steps(const Before& before, const After& after) {
    std::vector<double> all;
    for (const int value : {1, 2, 3}) {
      x.fill_(value);
      before();
      graph->replay();
      after();
      optimizer->step();
      all.push_back(values(weight)[0]);
    }
    return all;
  }

  at::Tensor weight, x, gradient;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

const std::vector<double> kTrained = {-1, -3, -6};

TEST_F(GradientsSetToNoneBetweenReplays, ControlEager) {
  std::vector<double> all;
  for (const int value : {1, 2, 3}) {
    x.fill_(value);
    optimizer->zero_grad();
    backward();
    optimizer->step();
    all.push_back(values(weight)[0]);
  }
  EXPECT_EQ(all, kTrained);
}

TEST_F(GradientsSetToNoneBetweenReplays, Control) {
  EXPECT_EQ(steps([] {}, [] {}), kTrained);
}

TEST_F(GradientsSetToNoneBetweenReplays, Reproduces) {
  const std::vector<double> seen = steps([&] { TRIGGER(optimizer->zero_grad()); }, [] {});
  REPRODUCES(seen, (std::vector<double>{0, 0, 0}), kTrained);
}

TEST_F(GradientsSetToNoneBetweenReplays, FixKeepTheTensors) {
  bool set_to_none = true;
  REMEDY(set_to_none = false);
  EXPECT_EQ(steps([&] { optimizer->zero_grad(set_to_none); }, [] {}), kTrained);
}

TEST_F(GradientsSetToNoneBetweenReplays, FixAssignThemAgain) {
  EXPECT_EQ(steps([&] { optimizer->zero_grad(); }, [&] { REMEDY(weight.mutable_grad() = gradient); }), kTrained);
}
