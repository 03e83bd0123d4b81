// A new tensor under the old name is not what the graph reads.
//
// The graph has the address of the tensor that the name stood for during the capture. Eager code may give the name to a
// new tensor at every step, be it the input or a hidden state that the step reads; a replay then goes on with the old
// one's values. The old tensors are kept here: if they died, the replay would read their memory's next owner
// (input_freed_after_capture).
//
// Alone:  g++ cases/replay/input_rebound.cpp $(tools/libtorch --flags) -o input_rebound

#include <functional>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An input, or a hidden state, that is assigned a new tensor keeps its old value in every replay",
    .sources = {{"CUDA graph guide", "Numerical Errors"}, {"CUDA graph guide", "Handling Dynamic Patterns"}},
    .documented = "a tensor that is bound anew instead of copied into: stale values",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCopyIntoTheInput",
               "Copy each new input into the tensor that the capture read, with copy_(), before graph.replay()."},
              {"FixUpdateTheStateInPlace",
               "Update running statistics and other hidden state in place, with copy_(), add_() or lerp_()."}},
};

class InputRebound : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    captured_x = x = at::full({1}, 3.0, at::kCUDA);
    captured_mean = mean = at::zeros({1}, at::kCUDA);
  }

  void capture() {
    graph->capture_begin();
    doubled = x * 2;
    centred = x - mean;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // Each step has a new input; `use` makes it the step's.
  std::vector<double> with_inputs(const std::function<void(const at::Tensor&)>& use) {
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      use(at::full({1}, 1.0 * value, at::kCUDA));
      graph->replay();
      all.push_back(values(doubled)[0]);
    }
    return all;
  }

  // Each step raises the mean by one; `raise` does so.
  std::vector<double> with_means(const std::function<void()>& raise) {
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      captured_x.fill_(value);
      graph->replay();
      all.push_back(values(centred)[0]);
      raise();
    }
    return all;
  }

  at::Tensor x, mean, captured_x, captured_mean, doubled, centred;
};

// Eager code takes whatever the name stands for.
TEST_F(InputRebound, ControlEager) {
  for (const int value : {5, 7, 9}) {
    x = at::full({1}, 1.0 * value, at::kCUDA);
    EXPECT_EQ(values(x * 2), std::vector<double>{2.0 * value});
    mean = mean + 1;
  }
  EXPECT_EQ(values(x - mean), std::vector<double>{6});
}

TEST_F(InputRebound, Control) {
  capture();
  EXPECT_EQ(with_inputs([&](const at::Tensor& next) { x.copy_(next); }), (std::vector<double>{10, 14, 18}));
  EXPECT_EQ(with_means([&] { mean.add_(1); }), (std::vector<double>{5, 6, 7}));
}

TEST_F(InputRebound, ReproducesInput) {
  capture();
  const auto seen = with_inputs([&](const at::Tensor& next) {
    TRIGGER(x = next);
    WITHOUT_TRIGGER(x.copy_(next));
  });
  REPRODUCES(seen, (std::vector<double>{6, 6, 6}), (std::vector<double>{10, 14, 18}));
}

TEST_F(InputRebound, ReproducesHiddenState) {
  capture();
  const auto seen = with_means([&] {
    TRIGGER(mean = mean + 1);
    WITHOUT_TRIGGER(mean.add_(1));
  });
  REPRODUCES(seen, (std::vector<double>{5, 7, 9}), (std::vector<double>{5, 6, 7}));
}

TEST_F(InputRebound, FixCopyIntoTheInput) {
  capture();
  const auto seen = with_inputs([&](const at::Tensor& next) {
    WITHOUT_REMEDY(x = next);
    REMEDY(x.copy_(next));
  });
  EXPECT_EQ(seen, (std::vector<double>{10, 14, 18}));
}

TEST_F(InputRebound, FixUpdateTheStateInPlace) {
  capture();
  const auto seen = with_means([&] {
    WITHOUT_REMEDY(mean = mean + 1);
    REMEDY(mean.add_(1));
  });
  EXPECT_EQ(seen, (std::vector<double>{5, 6, 7}));
}
