// What the warm-up has computed and kept is not in the graph: each replay uses the warm-up's value.
//
// Code that computes something once and keeps it, such as a plan, a mask, a table of positions or a quantised weight,
// does so in the warm-up, with the warm-up's data. The capture then takes the branch that reuses it. The kernels that
// made it are missing in the graph, so a replay for other data goes on with the old plan.
//
// Alone:  g++ cases/replay/value_cached_by_warm_up.cpp $(tools/libtorch --flags) -o value_cached_by_warm_up

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "What a warm-up computes and keeps is missing in the graph, and every replay uses the warm-up's value",
    .sources = {{"upstream", "vllm#42444"}},
    .documented = "metadata that the warm-up computed is reused in the capture: wrong output",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixDropItBeforeTheCapture",
          "Drop what the warm-up has cached before the capture, so that its kernels are captured."},
         {"FixComputeItOutside",
          "Compute it outside the graph, and copy_() it into the tensor that the capture read before each replay."}},
};

class ValueCachedByWarmUp : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    lengths = at::full({3}, 1.0, at::kCUDA);
    x = at::ones({3}, at::kCUDA);
  }
  // A model that makes its plan from the lengths at the first call. A plan that is kept has one address.
  at::Tensor step() {
    if (!plan.defined()) plan = lengths.cumsum(0);
    return x * plan;
  }
  void capture() {
    graph->capture_begin();
    y = step();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }
  template <class Before>
  std::vector<double> last_of_replays(const Before& before) {
    std::vector<double> all;
    for (const int length : {2, 5}) {
      lengths.fill_(length);
      before();
      graph->replay();
      all.push_back(values(y)[2]);
    }
    return all;
  }

  at::Tensor lengths, x, plan, y;
};

const std::vector<double> kRight = {6, 15};

TEST_F(ValueCachedByWarmUp, ControlEager) {
  std::vector<double> all;
  for (const int length : {2, 5}) {
    lengths.fill_(length);
    plan.reset();
    all.push_back(values(step())[2]);
  }
  EXPECT_EQ(all, kRight);
}

TEST_F(ValueCachedByWarmUp, Control) {
  capture();
  EXPECT_EQ(last_of_replays([] {}), kRight);
}

TEST_F(ValueCachedByWarmUp, Reproduces) {
  TRIGGER(step());
  stream.synchronize();
  capture();
  REPRODUCES(last_of_replays([] {}), (std::vector<double>{3, 3}), kRight);
}

TEST_F(ValueCachedByWarmUp, FixDropItBeforeTheCapture) {
  step();
  stream.synchronize();
  REMEDY(plan.reset());
  capture();
  EXPECT_EQ(last_of_replays([] {}), kRight);
}

TEST_F(ValueCachedByWarmUp, FixComputeItOutside) {
  step();
  stream.synchronize();
  capture();
  EXPECT_EQ(last_of_replays([&] { REMEDY(plan.copy_(lengths.cumsum(0))); }), kRight);
}
