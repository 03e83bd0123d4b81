// A capture into a memory pool fails an assertion once all graphs of the pool are destroyed.
//
// A pool's handle is only two numbers. The graphs hold the pool, and destroying the last one releases it. LibTorch
// still has an entry for the pool, with a use count of zero, and asserts when a capture asks for it. If no tensor of
// the pool is left, the allocator of pinned memory asserts instead, from 2.11 on. Programs that keep one handle for all
// their graphs, such as serving engines, meet this when they destroy their graphs and capture again.
//
// Alone:  g++ cases/memory/pool_of_destroyed_graphs.cpp $(tools/libtorch --flags) -o pool_of_destroyed_graphs

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture into the memory pool of destroyed graphs fails an assertion",
    .sources = {{"upstream", "vllm#28426"}, {"upstream", "pytorch#189126"}, {"upstream", "transformers#48312"}},
    .documented = "RuntimeError: it->second->use_count > 0 INTERNAL ASSERT FAILED",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"memory pools", "several graphs"},
    .features = {"memory pools", "several graphs"},
    .fixes = {{"FixKeepOneGraph",
               "Keep one graph of the pool until the next one is captured into it: the handle alone does not keep it."},
              {"FixNewPool",
               "Take a new handle, torch.cuda.graph_pool_handle(), once the pool's graphs are destroyed."}},
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

  // How a capture into this pool fails, or ok.
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
