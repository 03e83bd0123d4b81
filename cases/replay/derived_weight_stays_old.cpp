// What was computed from a weight before the capture stays old in every replay when the weight is updated.
//
// An inference engine prepares weights once: transposed, contiguous, cast to half precision or quantised with a scale.
// When new weights arrive, as they do in each round of reinforcement learning, it writes them in place and prepares
// them again. The preparation makes new tensors, and the graph has the addresses of the first ones. Eager code uses the
// new ones. The replays are wrong in what was prepared alone: layers that read the weight itself, such as the one here
// that scales, are new already, so that the model is a mix of two versions.
//
// The old tensors are kept here: if they died, the replay would read their memory's next owner
// (input_freed_after_capture).
//
// Alone:  g++ cases/replay/derived_weight_stays_old.cpp $(tools/libtorch --flags) -o derived_weight_stays_old

#include <functional>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A model's tensor that was derived from a weight before the capture stays old when the weight is updated",
    .sources = {{"upstream", "vllm-ascend#15666"}, {"upstream", "vllm-ascend#7473"}},
    .documented = "replacing the reference means the graph still holds the old tensor, so it keeps using stale weights",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCopyIntoTheDerivedTensor",
               "Compute the derived tensor again and copy_() it into the one that the graph reads."},
              {"FixDeriveInTheGraph",
               "Derive it in the captured code, so that each replay does so from the weight as it is."},
              {"FixCaptureAgain", "Capture again after the weights were updated."}},
};

class DerivedWeightStaysOld : public GpuTest {
 protected:
  using Values = std::vector<double>;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    weight = at::ones({2, 2}, at::kCUDA);
    x = at::ones({2, 2}, at::kCUDA);
    prepare();
    forward();  // Loads the kernels.
    stream.synchronize();
  }

  at::Tensor prepared_weight() const { return weight.t().to(at::kHalf).contiguous(); }
  // As an engine does after it has loaded weights.
  void prepare() {
    kept.push_back(prepared);
    prepared = prepared_weight();
  }
  // The sum of a layer that reads the prepared weight and of one that reads the weight.
  at::Tensor forward() { return at::mm(x.to(at::kHalf), prepared).to(at::kFloat) + x * weight; }

  void capture() {
    graph = make_graph();
    graph->capture_begin();
    y = forward();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }
  // The output after each of two updates of the weight to `value`: 2 * value of the first layer, 1 * value of the
  // second.
  Values outputs(const std::function<void()>& update_the_rest) {
    Values all;
    for (const int value : {3, 5}) {
      weight.fill_(value);
      update_the_rest();
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  at::Tensor weight, prepared, x, y;
  std::vector<at::Tensor> kept;
};

const std::vector<double> kNew = {9, 15}, kMixed = {5, 7};

TEST_F(DerivedWeightStaysOld, ControlEager) {
  Values all;
  for (const int value : {3, 5}) {
    weight.fill_(value);
    prepare();
    all.push_back(values(forward())[0]);
  }
  EXPECT_EQ(all, kNew);
}

TEST_F(DerivedWeightStaysOld, Control) {
  capture();
  for (const int value : {3, 5}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y)[0], 3 * value);  // The weight is one.
  }
}

TEST_F(DerivedWeightStaysOld, Reproduces) {
  capture();
  const Values seen = outputs([&] {
    TRIGGER(prepare());
    WITHOUT_TRIGGER(prepared.copy_(prepared_weight()));
  });
  REPRODUCES(seen, kMixed, kNew);
}

TEST_F(DerivedWeightStaysOld, FixCopyIntoTheDerivedTensor) {
  capture();
  EXPECT_EQ(outputs([&] { REMEDY(prepared.copy_(prepared_weight())); }), kNew);
}

TEST_F(DerivedWeightStaysOld, FixDeriveInTheGraph) {
  graph->capture_begin();
  REMEDY(prepare());
  y = forward();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(outputs([] {}), kNew);
}

TEST_F(DerivedWeightStaysOld, FixCaptureAgain) {
  capture();
  EXPECT_EQ(outputs([&] {
              prepare();
              REMEDY(capture());
            }),
            kNew);
}
