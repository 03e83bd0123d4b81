// A graph for eight rows that is replayed for five also computes the other three, and writes into somebody else's row.
//
// A server captures a few batch sizes and replays the next larger one. The rows beyond the batch still run. What they
// write depends on what their slots are: -1 is the last row of the cache, 0 is a live row, and slots that an earlier,
// larger batch left belong to other requests by now. Filling what is left over with zeros is no remedy: slot 0 is one.
//
// Alone:  g++ cases/replay/padding_rows_do_work.cpp $(tools/libtorch --flags) -o padding_rows_do_work

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The rows of padding of a smaller batch do real work in a replay, and overwrite rows of a cache",
    .sources = {{"upstream", "vllm#43869"}, {"upstream", "sglang#32477"}, {"upstream", "sglang#24401"}},
    .documented = "padding rows write through index -1, or a stale slot, into a row of the cache that is in use",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixSlotOfItsOwn",
               "Give rows of padding a slot that no request reads: one row more than the cache needs."}},
};

class PaddingRowsDoWork : public GpuTest {
 protected:
  static constexpr int64_t kRows = 64, kBatch = 8, kUsed = 5;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    cache = at::zeros({kRows + 1}, at::kCUDA);
    slots = at::zeros({kBatch}, at::device(at::kCUDA).dtype(at::kLong));
    tokens = at::zeros({kBatch}, at::kCUDA);
    write();
    stream.synchronize();
    graph->capture_begin();
    write();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    cache.fill_(1);  // Each row belongs to a request.
  }
  void write() { rows().index_put_({slots}, tokens); }
  // Without the spare row.
  at::Tensor rows() { return spare ? cache : cache.slice(0, 0, kRows); }

  // Replays with tokens 5 for the slots 10 to 14, and `padding` for the rest. Returns the rows that changed beside
  // these.
  std::vector<double> foreign_rows_written(const at::Tensor& padding) {
    const at::Tensor used = at::arange(10, 10 + kUsed, slots.options());
    for (const int token : {5, 6}) {
      tokens.fill_(token);
      slots.slice(0, 0, kUsed).copy_(used);
      slots.slice(0, kUsed, kBatch).copy_(padding);
      graph->replay();
      EXPECT_EQ(values(cache.slice(0, 10, 10 + kUsed)), std::vector<double>(kUsed, token));
    }
    at::Tensor live = cache.slice(0, 0, kRows).clone();
    live.slice(0, 10, 10 + kUsed).fill_(1);
    return values(live.ne(1).nonzero().flatten());
  }
  at::Tensor all(int64_t slot) const { return at::full({kBatch - kUsed}, slot, slots.options()); }
  // What an earlier, full batch left in the static input.
  at::Tensor left_over() const { return at::arange(20 + kUsed, 20 + kBatch, slots.options()); }
  // Slots that are written anyway: the batch needs no padding.
  at::Tensor none() const { return at::arange(10, 10 + kBatch - kUsed, slots.options()); }

  bool spare = false;
  at::Tensor cache, slots, tokens;
};

// The same rows in eager code, which has only five.
TEST_F(PaddingRowsDoWork, ControlEager) {
  const at::Tensor used = at::arange(10, 10 + kUsed, slots.options());
  rows().index_put_({used}, at::full({kUsed}, 5.0, at::kCUDA));
  EXPECT_EQ(values(cache.ne(1).sum())[0], kUsed);
}

TEST_F(PaddingRowsDoWork, Control) { EXPECT_EQ(foreign_rows_written(none()), std::vector<double>{}); }

TEST_F(PaddingRowsDoWork, Reproduces) {
  at::Tensor padding = none();
  TRIGGER(padding = all(-1));
  REPRODUCES(foreign_rows_written(padding), std::vector<double>{kRows - 1}, std::vector<double>{});
}

TEST_F(PaddingRowsDoWork, ReproducesWithZeros) {
  at::Tensor padding = none();
  TRIGGER(padding = all(0));
  REPRODUCES(foreign_rows_written(padding), std::vector<double>{0}, std::vector<double>{});
}

TEST_F(PaddingRowsDoWork, ReproducesWithSlotsOfAnEarlierBatch) {
  at::Tensor padding = none();
  TRIGGER(padding = left_over());
  REPRODUCES(foreign_rows_written(padding), (std::vector<double>{25, 26, 27}), std::vector<double>{});
}

TEST_F(PaddingRowsDoWork, FixSlotOfItsOwn) {
  spare = true;
  graph = make_graph();
  graph->capture_begin();
  write();
  graph->capture_end();
  int64_t slot = -2;  // Without the remedy the last row that is in use.
  REMEDY(slot = kRows);
  EXPECT_EQ(foreign_rows_written(all(slot)), std::vector<double>{});
}
