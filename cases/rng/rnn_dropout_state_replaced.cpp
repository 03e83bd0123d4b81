// A graph with a recurrent network of cuDNN writes into memory of other tensors once the program sets a seed.
//
// The random numbers of a dropout between the layers of an RNN, GRU or LSTM are cuDNN's own. PyTorch keeps their state,
// a buffer of some MB for each device, and gives its address to cuDNN, so a captured call has that address. A seed
// (torch.manual_seed(), set_rng_state()) marks the state as outdated. The next eager call in training mode makes a new
// one and frees the old one, which the graph goes on using: each replay reads its random numbers from memory that may
// have another owner by then, and writes the advanced state back. No error is raised: a tensor elsewhere changes.
//
// If the call that follows the seed is captured, the capture fails instead: PyTorch draws the new state's seed on the
// GPU and reads it with item() (900).
//
// No document describes it. Our search for failures that no case has met it: values differed, or a replay ended with an
// illegal access, after a seed was set.
//
// Alone:  g++ cases/rng/rnn_dropout_state_replaced.cpp $(tools/libtorch --flags) -o rnn_dropout_state_replaced

#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "After a seed, a graph with dropout in a cuDNN RNN overwrites memory of other tensors",
    .sources = {{"upstream", "pytorch#74177"},
                {"PyTorch source", "aten/src/ATen/native/cudnn/RNN.cpp: get_dropout_state"}},
    .documented = "not documented; found by trying: a replay overwrites other tensors, or the capture is refused (900)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"cuDNN", "generators"},
    .features = {"cuDNN", "generators"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesSeedBeforeCapture", Effect::Raises}},
    .fixes =
        {{"FixSeedBeforeTheWarmUp",
          "Set the seed before the warm-up, and not again while a graph with an RNN with dropout is replayed."},
         {"FixCaptureAgain", "After a seed, call the RNN once in eager mode and capture again."},
         {"FixDropoutOfItsOwn",
          "Use dropout=0 and nn.Dropout between RNNs of one layer: PyTorch's own random numbers are safe in graphs."}},
};

class RnnDropoutStateReplaced : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!at::cudnn_is_acceptable(at::empty({1}, at::kCUDA))) GTEST_SKIP() << "this LibTorch has no cuDNN";
    x = at::ones({4, 8, kSize}, at::kCUDA);
    hidden = at::zeros({2, 8, kSize}, at::kCUDA);
    for (int layer = 0; layer < 2; ++layer) {
      weights.push_back(at::full({3 * kSize, kSize}, 0.01, at::kCUDA));
      weights.push_back(at::full({3 * kSize, kSize}, 0.01, at::kCUDA));
      weights.push_back(at::full({3 * kSize}, 0.1, at::kCUDA));
      weights.push_back(at::full({3 * kSize}, 0.1, at::kCUDA));
    }
  }

  // Two layers in training mode, with dropout between them.
  at::Tensor gru() const {
    if (!has_own_dropout) return std::get<0>(at::gru(x, hidden, weights, true, 2, 0.5, true, false, false));
    const at::TensorList all = weights;
    const at::Tensor first =
        std::get<0>(at::gru(x, hidden[0].unsqueeze(0), all.slice(0, 4), true, 1, 0, true, false, false));
    return std::get<0>(at::gru(at::dropout(first, 0.5, true), hidden[1].unsqueeze(0), all.slice(4, 4), true, 1, 0, true,
                               false, false));
  }

  static void set_seed(uint64_t seed) {
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(0);
    generator.set_current_seed(seed);
  }

  void capture() {
    graph->capture_begin();
    y = gru();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // What three replays do to tensors that have taken the allocator's free memory.
  std::string after_replays() {
    std::vector<at::Tensor> others;
    for (int i = 0; i < 48; ++i) others.push_back(at::zeros({(1 << 20) + 512}, at::device(at::kCUDA).dtype(at::kByte)));
    for (int i = 0; i < 3; ++i) graph->replay();
    stream.synchronize();
    for (const at::Tensor& other : others) {
      if (other.any().item<bool>()) return "other tensors are overwritten";
    }
    return "other tensors keep their values";
  }

  // Whether two replays are finite and have different dropout.
  bool draws_anew() {
    graph->replay();
    const at::Tensor first = y.clone();
    graph->replay();
    return at::isfinite(y).all().item<bool>() && !at::equal(first, y);
  }

  static constexpr int64_t kSize = 64;
  bool has_own_dropout = false;
  at::Tensor x, hidden, y;
  std::vector<at::Tensor> weights;
};

TEST_F(RnnDropoutStateReplaced, Control) {
  set_seed(7);
  gru();
  capture();
  gru();
  EXPECT_EQ(after_replays(), "other tensors keep their values");
  EXPECT_TRUE(draws_anew());
}

// Eager calls after a seed are right: the new state is theirs.
TEST_F(RnnDropoutStateReplaced, ControlEager) {
  set_seed(7);
  const at::Tensor first = gru();
  EXPECT_FALSE(at::equal(gru(), first));
  set_seed(7);
  EXPECT_TRUE(at::equal(gru(), first));
}

TEST_F(RnnDropoutStateReplaced, Reproduces) {
  gru();
  capture();
  TRIGGER(set_seed(7));
  gru();
  REPRODUCES(after_replays(), "other tensors are overwritten", "other tensors keep their values");
}

TEST_F(RnnDropoutStateReplaced, ReproducesSeedBeforeCapture) {
  gru();
  TRIGGER(set_seed(7));
  graph->capture_begin();
  const Failure first = failure_of([&] { gru(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(RnnDropoutStateReplaced, FixSeedBeforeTheWarmUp) {
  REMEDY(set_seed(7));
  gru();
  capture();
  WITHOUT_REMEDY(set_seed(7));
  gru();
  EXPECT_EQ(after_replays(), "other tensors keep their values");
  EXPECT_TRUE(draws_anew());
}

TEST_F(RnnDropoutStateReplaced, FixCaptureAgain) {
  gru();
  capture();
  set_seed(7);
  gru();
  REMEDY(graph = make_graph(); capture());
  EXPECT_EQ(after_replays(), "other tensors keep their values");
  EXPECT_TRUE(draws_anew());
}

TEST_F(RnnDropoutStateReplaced, FixDropoutOfItsOwn) {
  REMEDY(has_own_dropout = true);
  gru();
  capture();
  set_seed(7);
  gru();
  EXPECT_EQ(after_replays(), "other tensors keep their values");
  EXPECT_TRUE(draws_anew());
}
