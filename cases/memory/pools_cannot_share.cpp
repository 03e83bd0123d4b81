// Graphs with pools of their own need the memory of each, and eager code cannot use a graph's pool, nor a graph the
// cache of eager code.
//
// A graph's pool keeps all that its capture took from the system, for as long as the graph lives, also what the capture
// itself has freed. Three graphs with an intermediate of 64 MiB each therefore hold 192 MiB, where one shared pool
// would do with 64; eager work beside a graph needs its own; and what eager work has left in the cache is of no use to
// a capture (torch.cuda.graph() empties the cache first, capture_begin() does not). Three static inputs, one for each
// graph, are another 192 MiB that one buffer can replace.
//
// Alone:  g++ cases/memory/pools_cannot_share.cpp $(tools/libtorch --flags) -o pools_cannot_share

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Graphs with pools of their own, and eager work beside them, cannot use each other's free memory",
    .sources = {{"CUDA graph guide", "Memory Issues"}},
    .documented = "24 instead of 20 GB across graphs, 16 instead of 12 GB beside eager work, 10 instead of 8 GB",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "several graphs", "memory pools"},
    .effect = Effect::Leaks,
    .fixes = {{"FixShareOnePool",
               "Capture graphs that are replayed in one order with pool=first_graph.pool(), on the same stream."},
              {"FixShareTheStaticInput", "Let graphs of one size read the same static input, and copy_() into it."},
              {"FixEmptyCacheBeforeTheCapture",
               "Call torch.cuda.empty_cache() before a capture, so that what eager code has cached is given back."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kGraphs = 3;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class PoolsCannotShare : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, bytes);
    data.add(data);  // Its small segment is there before anything is counted.
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    before = reserved();
  }

  // To the nearest 16 MiB: small segments are not counted.
  std::string more() const { return text_of((reserved() - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB"; }

  at::Tensor block() { return at::zeros({64 * kMiB}, bytes); }

  // Doubles the first bytes of its input, by way of a large intermediate.
  void capture(Graph& into, Pool pool, const at::Tensor& input) {
    into.capture_begin(pool);
    {
      const at::Tensor intermediate = block();
      intermediate.slice(0, 0, 4).add_(input.slice(0, 0, 4), 2);
      results.push_back(intermediate.slice(0, 0, 4).clone());
    }
    EXPECT_GT(captured_nodes(stream), 0);
    into.capture_end();
  }
  void capture_all(bool share) {
    for (int i = 0; i < kGraphs; ++i) {
      graphs.push_back(make_graph());
      capture(*graphs[i], share && i > 0 ? graphs[0]->pool() : Pool{0, 0}, data);
    }
  }

  // Static inputs alone; the graphs share a pool.
  void make_inputs(bool share) {
    for (int i = 0; i < kGraphs; ++i) inputs.push_back(share && i > 0 ? inputs[0] : block());
  }

  void expect_doubled(Graph& replayed, const at::Tensor& input, const at::Tensor& result) {
    for (const int value : {5, 7, 9}) {
      input.slice(0, 0, 4).fill_(value);
      replayed.replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<at::Tensor> results, inputs;
  at::Tensor data;
  int64_t before = 0;
};

// Eager code uses one block again and again.
TEST_F(PoolsCannotShare, ControlEager) {
  for (int i = 0; i < kGraphs; ++i) block().slice(0, 0, 4).add_(data);
  EXPECT_EQ(more(), "64 MiB");
}

TEST_F(PoolsCannotShare, Control) {
  capture(*graph, Pool{0, 0}, data);
  EXPECT_EQ(more(), "64 MiB");
  expect_doubled(*graph, data, results[0]);
}

TEST_F(PoolsCannotShare, ReproducesIntermediates) {
  capture_all(/*share=*/!trigger_on());
  REPRODUCES(more(), "192 MiB", "64 MiB");
}

TEST_F(PoolsCannotShare, ReproducesStaticInputs) {
  make_inputs(/*share=*/!trigger_on());
  for (int i = 0; i < kGraphs; ++i) {
    graphs.push_back(make_graph());
    graphs[i]->capture_begin();
    results.push_back(inputs[i].slice(0, 0, 4) * 2);
    graphs[i]->capture_end();
  }
  REPRODUCES(more(), "192 MiB", "64 MiB");
}

TEST_F(PoolsCannotShare, ReproducesEagerWorkAfterTheCapture) {
  TRIGGER(capture(*graph, Pool{0, 0}, data));
  WITHOUT_TRIGGER(block().slice(0, 0, 4).add_(data));
  block().slice(0, 0, 4).add_(data);
  REPRODUCES(more(), "128 MiB", "64 MiB");
}

TEST_F(PoolsCannotShare, ReproducesCacheBeforeTheCapture) {
  TRIGGER(block());
  capture(*graph, Pool{0, 0}, data);
  REPRODUCES(more(), "128 MiB", "64 MiB");
}

TEST_F(PoolsCannotShare, FixShareOnePool) {
  bool share = false;
  REMEDY(share = true);
  capture_all(share);
  EXPECT_EQ(more(), "64 MiB");
  for (int i = 0; i < kGraphs; ++i) expect_doubled(*graphs[i], data, results[i]);
}

TEST_F(PoolsCannotShare, FixShareTheStaticInput) {
  bool share = false;
  REMEDY(share = true);
  make_inputs(share);
  for (int i = 0; i < kGraphs; ++i) {
    graphs.push_back(make_graph());
    graphs[i]->capture_begin();
    results.push_back(inputs[i].slice(0, 0, 4) * 2);
    graphs[i]->capture_end();
  }
  EXPECT_EQ(more(), "64 MiB");
  for (int i = 0; i < kGraphs; ++i) expect_doubled(*graphs[i], inputs[i], results[i]);
}

TEST_F(PoolsCannotShare, FixEmptyCacheBeforeTheCapture) {
  block();
  REMEDY(stream.synchronize(); c10::cuda::CUDACachingAllocator::emptyCache());
  capture(*graph, Pool{0, 0}, data);
  EXPECT_EQ(more(), "64 MiB");
  expect_doubled(*graph, data, results[0]);
}
