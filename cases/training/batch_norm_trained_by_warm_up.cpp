// The warm-ups before a capture train BatchNorm's running statistics, with the warm-ups' data.
//
// A warm-up is an ordinary forward pass. In training mode it moves running_mean and running_var and counts in
// num_batches_tracked; the capture itself runs nothing and moves nothing. A model that is captured after three warm-ups
// on a sample of random numbers, or of zeros, starts its training with statistics of that sample, and evaluation and
// checkpoints have them too. make_graphed_callables() warms up by itself, on its sample arguments: its three passes, or
// eleven for DistributedDataParallel, are hidden in the call. The same is true of whatever else a forward pass writes,
// such as a cache or an average of the weights.
//
// Alone:  g++ cases/training/batch_norm_trained_by_warm_up.cpp $(tools/libtorch --flags) -o batch_norm_trained_by_warm_up

#include <torch/nn/modules/batchnorm.h>

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The warm-ups before a capture train BatchNorm's running statistics with the warm-ups' data",
    .sources = {{"upstream", "LibreYOLO#671"}},
    .documented = "warm-up forwards on the live model update BatchNorm's running statistics beyond eager training's",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "graphed callables"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixPutTheBuffersBack",
          "Clone the buffers before the warm-ups or make_graphed_callables(), and copy_() the clones back afterwards: "
          "the graph has the buffers' addresses."},
         {"FixWarmUpOnRealBatches",
          "Warm up on the first batches of the training, as its first steps, and do not train on these again."}},
};

class BatchNormTrainedByWarmUp : public GpuTest {
 protected:
  using Values = std::vector<double>;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    norm = torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(4).momentum(0.5));
    norm->to(at::kCUDA);
    x = at::zeros({8, 4}, at::kCUDA);
  }

  void forward_of(double value) {
    x.fill_(value);
    norm->forward(x);
  }
  // Three forward passes on a sample of eights, as make_graphed_callables() has them.
  void warm_up() {
    for (int i = 0; i < 3; ++i) forward_of(8);
    stream.synchronize();
  }
  void capture() {
    graph->capture_begin();
    y = norm->forward(x);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }
  // Batches, and the running mean, after replays on a batch of each value.
  Values statistics_after(const std::vector<int>& batches) {
    for (const int value : batches) {
      x.fill_(value);
      graph->replay();
    }
    return statistics();
  }
  Values statistics() { return {values(norm->num_batches_tracked)[0], values(norm->running_mean)[0]}; }

  // The statistics now, to be put back.
  std::vector<at::Tensor> clones() {
    std::vector<at::Tensor> all;
    for (const at::Tensor& buffer : norm->buffers()) all.push_back(buffer.clone());
    return all;
  }
  void put_back(const std::vector<at::Tensor>& saved) {
    const std::vector<at::Tensor> buffers = norm->buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(saved[i]);
  }

  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor x, y;
};

// 0 > 1 > 1.5 after batches of twos; 0 > 4 > 6 > 7 after the warm-ups, and then 4.5 > 3.25.
const std::vector<double> kTrainedOnBatches = {2, 1.5}, kTrainedOnTheSample = {5, 3.25};

TEST_F(BatchNormTrainedByWarmUp, ControlEager) {
  for (int i = 0; i < 2; ++i) forward_of(2);
  EXPECT_EQ(statistics(), kTrainedOnBatches);
}

// The warm-ups run another module.
TEST_F(BatchNormTrainedByWarmUp, Control) {
  const torch::nn::BatchNorm1d trained = norm;
  norm = torch::nn::BatchNorm1d(trained->options);
  norm->to(at::kCUDA);
  warm_up();
  norm = trained;
  capture();
  EXPECT_EQ(statistics(), (Values{0, 0}));  // Nothing ran in the capture.
  EXPECT_EQ(statistics_after({2, 2}), kTrainedOnBatches);
}

TEST_F(BatchNormTrainedByWarmUp, Reproduces) {
  const std::vector<at::Tensor> before = clones();
  warm_up();
  WITHOUT_TRIGGER(put_back(before));
  capture();
  REPRODUCES(statistics_after({2, 2}), kTrainedOnTheSample, kTrainedOnBatches);
}

TEST_F(BatchNormTrainedByWarmUp, FixPutTheBuffersBack) {
  const std::vector<at::Tensor> before = clones();
  warm_up();
  capture();
  REMEDY(put_back(before));
  EXPECT_EQ(statistics_after({2, 2}), kTrainedOnBatches);
}

// Four batches of training: two of them before the capture.
TEST_F(BatchNormTrainedByWarmUp, FixWarmUpOnRealBatches) {
  int first = 8;
  REMEDY(first = 2);
  for (int i = 0; i < 2; ++i) forward_of(first);
  stream.synchronize();
  capture();
  EXPECT_EQ(statistics_after({2, 2}), (Values{4, 1.875}));
}
