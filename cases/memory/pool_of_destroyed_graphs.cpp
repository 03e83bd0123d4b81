// The pool of graphs that are all destroyed cannot be captured into again.
//
// A pool's handle is two numbers. What keeps the pool is the graphs that were captured into it, and the last one that
// goes gives it up. LibTorch still knows the pool then, as one that nothing uses, and asserts when a capture asks for
// it, whether or not a tensor of it is left. Programs that keep one handle for all their graphs, such as serving
// engines, meet this when they destroy their graphs to capture again.
//
// Alone:  g++ cases/memory/pool_of_destroyed_graphs.cpp $(tools/libtorch --flags) -o pool_of_destroyed_graphs

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture into the memory pool of graphs that are all destroyed fails an assertion",
    .sources = {{"upstream", "pytorch#189126"}, {"upstream", "transformers#48312"}},
    .documented = "RuntimeError: it->second->use_count > 0 INTERNAL ASSERT FAILED",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"memory pools", "several graphs"},
    .fixes = {{"FixKeepOneGraph",
               "Keep one graph of the pool until the next one is captured into it: a handle alone keeps no pool."},
              {"FixNewPool", "Take a new handle, torch.cuda.graph_pool_handle(), once the pool's graphs are gone."}},
};

class PoolOfDestroyedGraphs : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::kCUDA);
    pool = at::cuda::graph_pool_handle();
    older = make_graph();
    older->capture_begin(pool);
    kept = data * 2;
    older->capture_end();
  }

  // How a capture into `into` goes.
  Failure capture(Pool into) {
    return failure_of([&] {
      graph->capture_begin(into);
      result = data * 5;
      EXPECT_GT(captured_nodes(stream), 0);
      graph->capture_end();
    });
  }

  void expect_replays() {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 5.0 * value));
    }
  }

  at::Tensor data, kept, result;
  Pool pool;
  std::unique_ptr<Graph> older;
};

TEST_F(PoolOfDestroyedGraphs, Control) {
  EXPECT_EQ(capture(pool).text, "ok");
  expect_replays();
}

TEST_F(PoolOfDestroyedGraphs, Reproduces) {
  TRIGGER(older.reset());
  REPRODUCES(capture(pool).text, "assert \"*use_count > 0 INTERNAL ASSERT FAILED\"", "ok");
}

TEST_F(PoolOfDestroyedGraphs, ReproducesNoTensorLeft) {
  kept.reset();
  TRIGGER(older.reset());
  c10::cuda::CUDACachingAllocator::emptyCache();
  REPRODUCES(capture(pool).text, "assert \"*use_count > 0 INTERNAL ASSERT FAILED\"", "ok");
}

TEST_F(PoolOfDestroyedGraphs, FixKeepOneGraph) {
  WITHOUT_REMEDY(older.reset());
  EXPECT_EQ(capture(pool).text, "ok");
  expect_replays();
}

TEST_F(PoolOfDestroyedGraphs, FixNewPool) {
  older.reset();
  Pool into = pool;
  REMEDY(into = at::cuda::graph_pool_handle());
  EXPECT_EQ(capture(into).text, "ok");
  expect_replays();
}
