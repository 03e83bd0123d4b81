// A captured attention kernel computes no more rows of a sequence than the longest sequence of its capture had.
//
// Attention over sequences of different lengths takes their offsets as a tensor, which each replay reads, and the
// longest length as a number on the host. The number sets the kernel's grid, and the graph keeps it. A replay with a
// longer sequence leaves the other rows unchanged, without an error. FlashInfer's plan() computes such numbers on the
// host too. In the tests all rows of V have the same value, so each computed row has that value.
//
// Alone:  g++ cases/libraries/attention_planned_at_capture.cpp $(tools/libtorch --flags) -o attention_planned_at_capture

#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured attention skips the rows of sequences that are longer than at the capture",
    .sources = {{"upstream", "flash-attention#1164"},
                {"upstream", "transformers#45323"},
                {"upstream", "rtp-llm#378"},
                {"CUDA semantics: graphs", "Constraints"}},
    .documented =
        "max_seqlen_q and max_seqlen_k, which are Python ints baked into the graph as kernel launch constants: a stale "
        "graph was replayed with incorrect kernel parameters",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"extensions"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixPlanForTheLongest",
               "Capture with the longest length that any replay will have as max_seqlen_q and max_seqlen_k."},
              {"FixGraphForEachLength",
               "Capture a graph for each range of lengths, and choose among them by the longest length of the batch."}},
};

class AttentionPlannedAtCapture : public GpuTest {
 protected:
  static constexpr int64_t kTokens = 512, kWidth = 64;
  static constexpr int64_t kShort = 128, kLong = 256;  // A block of the kernel has 64 or 128 rows.

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (at::cuda::getCurrentDeviceProperties()->major < 8) GTEST_SKIP() << "this GPU has no flash attention";
    const auto options = at::device(at::kCUDA).dtype(at::kHalf);
    q = at::zeros({kTokens, 1, kWidth}, options);
    k = at::zeros({kTokens, 1, kWidth}, options);
    v = at::zeros({kTokens, 1, kWidth}, options);
    begins = at::zeros({3}, at::device(at::kCUDA).dtype(at::kInt));
    set_lengths(kShort);
    attention(kLong);
    stream.synchronize();
  }

  // Two sequences of this length.
  void set_lengths(int64_t length) { begins.copy_(at::arange(3, begins.options()) * length); }

  at::Tensor attention(int64_t longest) {
    return std::get<0>(at::_flash_attention_forward(q, k, v, begins, begins, longest, longest, /*dropout_p=*/0.0,
                                                    /*is_causal=*/false, /*return_debug_mask=*/false));
  }

  void capture(int64_t longest) {
    graph = make_graph();
    graph->capture_begin();
    out = attention(longest);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // The first and the last row of the first sequence after each of two replays.
  std::vector<double> replays(int64_t length) {
    set_lengths(length);
    std::vector<double> rows;
    for (const int value : {5, 7}) {
      v.fill_(value);
      out.fill_(-1);
      graph->replay();
      const std::vector<double> all = values(out.select(2, 0).select(1, 0));
      rows.push_back(all[0]);
      rows.push_back(all[static_cast<size_t>(length) - 1]);
    }
    return rows;
  }

  at::Tensor q, k, v, begins, out;
  const std::vector<double> whole{5, 5, 7, 7};
};

TEST_F(AttentionPlannedAtCapture, ControlEager) {
  set_lengths(kLong);
  for (const int value : {5, 7}) {
    v.fill_(value);
    EXPECT_EQ(values(attention(kLong).view(-1)), std::vector<double>(kTokens * kWidth, value));
  }
}

// The lengths are in a tensor, and a replay follows it as far as the capture's number goes.
TEST_F(AttentionPlannedAtCapture, Control) {
  capture(kLong);
  EXPECT_EQ(replays(kShort), whole);
  EXPECT_EQ(replays(kLong), whole);
}

TEST_F(AttentionPlannedAtCapture, Reproduces) {
  int64_t longest = kLong;
  TRIGGER(longest = kShort);
  capture(longest);
  REPRODUCES(replays(kLong), (std::vector<double>{5, -1, 7, -1}), whole);
}

TEST_F(AttentionPlannedAtCapture, FixPlanForTheLongest) {
  int64_t longest = kShort;
  REMEDY(longest = kLong);
  capture(longest);
  EXPECT_EQ(replays(kLong), whole);
}

TEST_F(AttentionPlannedAtCapture, FixGraphForEachLength) {
  capture(kShort);
  EXPECT_EQ(replays(kShort), whole);
  REMEDY(capture(kLong));
  EXPECT_EQ(replays(kLong), whole);
}
