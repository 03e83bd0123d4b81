// A table that is made at its first use, and is first used in a capture, is empty until the graph is replayed.
//
// Nothing runs in a capture, and the table's memory is of the graph's pool. Eager code, or another graph, that reads
// the table from the module's cache before the first replay reads what lay in that memory. The memory is filled here
// before the capture, so that the outcome does not depend on what lay there.
//
// Alone:  g++ cases/replay/table_made_in_capture.cpp $(tools/libtorch --flags) -o table_made_in_capture

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A table that is first made in a capture has no values until the first replay, and eager code reads it",
    .sources = {{"upstream", "pytorch#193832"}},
    .documented = "memory of a graph's pool is handed to eager code that runs outside the graph",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixMakeItBefore", "Make the table in a warm-up, or in the module's constructor, before the capture."}},
};

class TableMadeInCapture : public GpuTest {
 protected:
  static constexpr int64_t kRows = 1 << 20;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::ones({kRows}, at::kCUDA);
    // A graph's pool takes its first block from here.
    at::full({4 * kRows}, 7.0, at::kCUDA).reset();
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  // A module's lookup table, made at its first use.
  const at::Tensor& table() {
    if (!rows.defined()) rows = at::arange(kRows, at::device(at::kCUDA).dtype(at::kFloat));
    return rows;
  }
  void capture() {
    graph->capture_begin();
    y = x + table();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }
  std::string eager_use() { return values(table().slice(0, 5, 6))[0] == 5 ? "right" : "wrong"; }
  // The graph itself is right in both cases.
  void expect_right_replays() {
    for (const int value : {2, 3}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y.slice(0, 5, 6))[0], value + 5);
    }
  }

  at::Tensor x, rows, y;
};

TEST_F(TableMadeInCapture, Control) {
  table();
  capture();
  EXPECT_EQ(eager_use(), "right");
  expect_right_replays();
}

TEST_F(TableMadeInCapture, ControlAfterAReplay) {
  capture();
  expect_right_replays();
  EXPECT_EQ(eager_use(), "right");
}

TEST_F(TableMadeInCapture, Reproduces) {
  WITHOUT_TRIGGER(table());
  capture();
  REPRODUCES(eager_use(), "wrong", "right");
}

TEST_F(TableMadeInCapture, FixMakeItBefore) {
  REMEDY(table());
  capture();
  EXPECT_EQ(eager_use(), "right");
  expect_right_replays();
}
