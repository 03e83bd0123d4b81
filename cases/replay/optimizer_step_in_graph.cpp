// LibTorch's optimizers keep their learning rate and step count on the host, so a captured step() repeats one of them.
//
// SGD multiplies by a C++ number: a schedule's new learning rate is not seen by any replay. Adam computes the bias
// correction from a step count on the host: a graph captured at step 2 corrects as at step 2 for ever, and with a
// constant gradient its steps grow from 0.1 to 0.116 and 0.128 instead of staying at 0.1. Python's optimizers have
// capturable=True, with the step count on the GPU; the C++ ones have no such option.
//
// Alone:  g++ cases/replay/optimizer_step_in_graph.cpp $(tools/libtorch --flags) -o optimizer_step_in_graph

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured step() of LibTorch's SGD or Adam has the learning rate and the step count of the capture",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"PyTorch source", "torch/csrc/api/src/optim/adam.cpp: Adam::step"}},
    .documented = "learning rate and step are CPU scalars: constants on replay",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer"},
    .features = {"optimizer"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixStepOutsideTheGraph",
          "Capture forward and backward alone, call optimizer.step() after graph.replay(), and keep the capture's "
          ".grad tensors, which zero_grad() drops."},
         {"FixStepOnTheGpu",
          "Write the update with learning rate and step count in CUDA tensors, as capturable=True does in Python."}},
};

using Values = std::vector<double>;

class OptimizerStepInGraph : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    weight = at::zeros({1}, at::kCUDA).set_requires_grad(true);
    weight.mutable_grad() = at::ones({1}, at::kCUDA);
  }

  // How far the weight has come, in thousandths, after each of three steps.
  template <class Step>
  Values three_steps(Step step) {
    Values all;
    for (const int number : {1, 2, 3}) {
      step(number);
      all.push_back(values((weight * -1000).round())[0]);
    }
    return all;
  }

  template <class Body>
  void capture(Body body) {
    graph->capture_begin();
    body();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  static void set_rate(torch::optim::SGD& sgd, double rate) {
    static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options()).lr(rate);
  }

  at::Tensor weight;
};

TEST_F(OptimizerStepInGraph, ControlEager) {
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(0.001));
  EXPECT_EQ(three_steps([&](int number) { set_rate(sgd, 0.001 * number), sgd.step(); }), (Values{1, 3, 6}));
  {
    at::NoGradGuard guard;
    weight.zero_();
  }
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.1));
  EXPECT_EQ(three_steps([&](int) { adam.step(); }), (Values{100, 200, 300}));
}

// A learning rate that never changes may be baked in.
TEST_F(OptimizerStepInGraph, Control) {
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(0.001));
  capture([&] { sgd.step(); });
  EXPECT_EQ(three_steps([&](int) { graph->replay(); }), (Values{1, 2, 3}));
}

TEST_F(OptimizerStepInGraph, ReproducesLearningRateOfSgd) {
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(0.001));
  capture([&] {
    weight.mutable_grad().fill_(1);
    TRIGGER(sgd.step());
  });
  const Values seen = three_steps([&](int number) {
    set_rate(sgd, 0.001 * number);
    graph->replay();
    WITHOUT_TRIGGER(sgd.step());
  });
  REPRODUCES(seen, (Values{1, 2, 3}), (Values{1, 3, 6}));
}

TEST_F(OptimizerStepInGraph, ReproducesStepOfAdam) {
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.1));
  adam.step();  // The warm-up makes the state.
  capture([&] {
    weight.mutable_grad().fill_(1);
    TRIGGER(adam.step());
  });
  const Values seen = three_steps([&](int) {
    graph->replay();
    WITHOUT_TRIGGER(adam.step());
  });
  REPRODUCES(seen, (Values{200, 316, 445}), (Values{200, 300, 400}));
}

TEST_F(OptimizerStepInGraph, FixStepOutsideTheGraph) {
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.1));
  adam.step();
  capture([&] {
    weight.mutable_grad().fill_(1);
    WITHOUT_REMEDY(adam.step());
  });
  const Values seen = three_steps([&](int) {
    graph->replay();
    REMEDY(adam.step());
  });
  EXPECT_EQ(seen, (Values{200, 300, 400}));
}

// Adam with its step count on the GPU; without the remedy the count is a number of the host's.
TEST_F(OptimizerStepInGraph, FixStepOnTheGpu) {
  const at::NoGradGuard guard;
  const at::Tensor mean = at::zeros_like(weight), square = at::zeros_like(weight);
  at::Device device = at::kCPU;
  REMEDY(device = at::kCUDA);
  const at::Tensor correction1 = at::zeros({}, at::device(device).dtype(at::kDouble));  // 1 - beta to the step.
  const at::Tensor correction2 = at::zeros_like(correction1);
  const auto step = [&] {
    correction1.sub_(1).mul_(0.9).add_(1);
    correction2.sub_(1).mul_(0.999).add_(1);
    mean.mul_(0.9).add_(weight.grad(), 0.1);
    square.mul_(0.999).addcmul_(weight.grad(), weight.grad(), 0.001);
    weight.sub_(0.1 * (mean / correction1) / (square / correction2).sqrt());
  };
  step();
  capture(step);
  EXPECT_EQ(three_steps([&](int) { graph->replay(); }), (Values{200, 300, 400}));
}
