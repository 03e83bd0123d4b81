// Outputs of several replays that are kept in a list are all the same tensor, with the last replay's value.
//
// A graph writes its output to one address. A program that collects the outputs of its steps, to sum them or to look at
// them later, holds that one tensor several times: for the inputs 0, 1 and 2 the graph of x * x + 1 gives 1, 2 and 5,
// and their sum is 15 instead of 8.
//
// Alone:  g++ cases/replay/output_overwritten_by_replay.cpp $(tools/libtorch --flags) -o output_overwritten_by_replay

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The output of a replay is overwritten by the next one: 15 instead of 8",
    .sources = {{"CUDA graph guide", "Numerical Errors"}},
    .documented = "the outputs that were collected sum to 15 instead of 8",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCloneTheOutput",
               "Keep output.clone(), and not the output itself, of a graph that is replayed again."},
              {"FixUseItBeforeTheNextReplay",
               "Use a graph's output on the same stream before the next graph.replay(), which overwrites it."}},
};

class OutputOverwrittenByReplay : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::zeros({1}, at::kCUDA);
  }

  void capture() {
    graph->capture_begin();
    y = x * x + 1;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  const at::Tensor& replay(int value) {
    x.fill_(value);
    graph->replay();
    return y;
  }

  static double sum(const std::vector<at::Tensor>& outputs) { return values(at::stack(outputs).sum())[0]; }

  at::Tensor x, y;
  std::vector<at::Tensor> outputs;
};

// Eager code makes a new output at every step.
TEST_F(OutputOverwrittenByReplay, ControlEager) {
  for (const int value : {0, 1, 2}) {
    x.fill_(value);
    outputs.push_back(x * x + 1);
  }
  EXPECT_EQ(sum(outputs), 8);
}

TEST_F(OutputOverwrittenByReplay, Control) {
  capture();
  for (const int value : {0, 1, 2}) EXPECT_EQ(values(replay(value)), std::vector<double>{1.0 * value * value + 1});
}

TEST_F(OutputOverwrittenByReplay, Reproduces) {
  capture();
  for (const int value : {0, 1, 2}) {
    at::Tensor output = replay(value).clone();
    TRIGGER(output = y);
    outputs.push_back(output);
  }
  REPRODUCES(sum(outputs), 15.0, 8.0);
}

TEST_F(OutputOverwrittenByReplay, FixCloneTheOutput) {
  capture();
  for (const int value : {0, 1, 2}) {
    at::Tensor output = replay(value);
    REMEDY(output = output.clone());
    outputs.push_back(output);
  }
  EXPECT_EQ(sum(outputs), 8);
}

TEST_F(OutputOverwrittenByReplay, FixUseItBeforeTheNextReplay) {
  capture();
  const at::Tensor total = at::zeros({1}, at::kCUDA);
  for (const int value : {0, 1, 2}) {
    replay(value);
    REMEDY(total.add_(y));
  }
  WITHOUT_REMEDY(for (int i = 0; i < 3; ++i) total.add_(y));
  EXPECT_EQ(values(total), std::vector<double>{8});
}
