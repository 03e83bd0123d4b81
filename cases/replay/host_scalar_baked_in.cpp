// A number that a kernel takes from the host keeps the value of the capture in every replay.
//
// Launch parameters are part of the graph. A learning rate, a step count, a loss scale or an exponent that the host
// computes, be it a C++ number or a 0-dim CPU tensor, is read once, while the graph is captured. The same number in a
// 0-dim CUDA tensor is read by the replay.
//
// Alone:  g++ cases/replay/host_scalar_baked_in.cpp $(tools/libtorch --flags) -o host_scalar_baked_in

#include <functional>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A learning rate, step, loss scale or exponent on the host is baked into the graph",
    .sources = {{"CUDA graph guide", "Numerical Errors"}, {"CUDA graph guide", "Handling Dynamic Patterns"}},
    .documented = "a CPU scalar is captured as a constant: stale in every replay",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "optimizer"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixScalarOnTheGpu",
               "Keep numbers that change in 0-dim CUDA tensors, and fill_() or copy_() them before graph.replay()."},
              {"FixCaptureForEachValue",
               "Capture a graph for each value where there are few, and replay the right one."}},
};

using Values = std::vector<double>;

class HostScalarBakedIn : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({1}, 12.0, at::kCUDA);
    weight = at::zeros({1}, at::kCUDA);
  }

  // What three replays make of a number that is 1 in the capture, and then 1, 2 and 4.
  Values three_replays(at::Device device, const std::function<at::Tensor(const at::Tensor&)>& compute) {
    const at::Tensor number = at::ones({}, device);
    graph->capture_begin();
    const at::Tensor y = compute(number);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    Values all;
    for (const int value : {1, 2, 4}) {
      number.fill_(value);
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  static at::Device device_of_the_number() {
    at::Device device = at::kCUDA;
    TRIGGER(device = at::kCPU);
    return device;
  }

  at::Tensor descend(const at::Tensor& rate) { return weight.sub_(rate * at::ones_like(weight)); }
  at::Tensor average(const at::Tensor& step) { return x / step; }
  at::Tensor scale(const at::Tensor& factor) { return x * factor; }

  at::Tensor x, weight;
};

TEST_F(HostScalarBakedIn, ControlEager) {
  const at::Tensor number = at::ones({}, at::kCPU);
  Values descended, averaged, scaled;
  for (const int value : {1, 2, 4}) {
    number.fill_(value);
    descended.push_back(values(descend(number))[0]);
    averaged.push_back(values(average(number))[0]);
    scaled.push_back(values(scale(number))[0]);
  }
  EXPECT_EQ(descended, (Values{-1, -3, -7}));
  EXPECT_EQ(averaged, (Values{12, 6, 3}));
  EXPECT_EQ(scaled, (Values{12, 24, 48}));
}

TEST_F(HostScalarBakedIn, Control) {
  EXPECT_EQ(three_replays(at::kCUDA, [&](const at::Tensor& factor) { return scale(factor); }), (Values{12, 24, 48}));
}

TEST_F(HostScalarBakedIn, ReproducesLearningRate) {
  const Values seen = three_replays(device_of_the_number(), [&](const at::Tensor& rate) { return descend(rate); });
  REPRODUCES(seen, (Values{-1, -2, -3}), (Values{-1, -3, -7}));
}

TEST_F(HostScalarBakedIn, ReproducesStep) {
  const Values seen = three_replays(device_of_the_number(), [&](const at::Tensor& step) { return average(step); });
  REPRODUCES(seen, (Values{12, 12, 12}), (Values{12, 6, 3}));
}

TEST_F(HostScalarBakedIn, ReproducesLossScale) {
  const Values seen = three_replays(device_of_the_number(), [&](const at::Tensor& factor) { return scale(factor); });
  REPRODUCES(seen, (Values{12, 12, 12}), (Values{12, 24, 48}));
}

// The literal 1 stands for the host's number, and PyTorch copies for it. pow() with a tensor is a kernel: 12, 144 and
// 20736 after rounding.
TEST_F(HostScalarBakedIn, ReproducesExponent) {
  const Values seen = three_replays(at::kCUDA, [&](const at::Tensor& exponent) {
    at::Tensor power;
    TRIGGER(power = at::pow(x, 1.0));
    WITHOUT_TRIGGER(power = at::pow(x, exponent));
    return power.round();
  });
  REPRODUCES(seen, (Values{12, 12, 12}), (Values{12, 144, 20736}));
}

TEST_F(HostScalarBakedIn, FixScalarOnTheGpu) {
  at::Device device = at::kCPU;
  REMEDY(device = at::kCUDA);
  EXPECT_EQ(three_replays(device, [&](const at::Tensor& rate) { return descend(rate); }), (Values{-1, -3, -7}));
}

TEST_F(HostScalarBakedIn, FixCaptureForEachValue) {
  std::vector<int> captured{1, 1, 1};
  REMEDY(captured = {1, 2, 4});
  std::vector<std::unique_ptr<Graph>> graphs;
  Values all;
  for (const int value : captured) {
    graphs.push_back(make_graph());
    graphs.back()->capture_begin();
    weight.sub_(at::ones_like(weight), value);
    EXPECT_GT(captured_nodes(stream), 0);
    graphs.back()->capture_end();
  }
  for (const auto& one : graphs) {
    one->replay();
    all.push_back(values(weight)[0]);
  }
  EXPECT_EQ(all, (Values{-1, -3, -7}));
}
