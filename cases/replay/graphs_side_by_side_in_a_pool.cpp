// Two graphs of one pool that are replayed at the same time overwrite each other's intermediates.
//
// What the first capture has freed, the second one uses, which is safe as long as one replay comes after the other. On
// two streams they run at once: here the second graph's sums 13 12 19 land where the first one has its products 4 10
// 18, before it has read them. A host function in the first graph waits between the two until the second graph is done,
// which in a program is a matter of time.
//
// Alone:  g++ cases/replay/graphs_side_by_side_in_a_pool.cpp $(tools/libtorch --flags) -o graphs_side_by_side_in_a_pool

#include "fixtures/cuda/gate.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Graphs that share a pool and are replayed at the same time give wrong numbers",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"PyTorch documentation", "torch.cuda: CUDA Graphs, Sharing memory across captures"}},
    .documented = "13, 12, 19 instead of 4, 10, 18",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"several graphs", "memory pools", "side streams"},
    .features = {"several graphs", "memory pools"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixOneAfterTheOther",
               "Replay graphs of one pool one after the other, on one stream or with an event between."},
              {"FixPoolsOfTheirOwn", "Give graphs that are replayed at the same time pools of their own."}},
    .connections = 8,
};

using Values = std::vector<double>;

class GraphsSideBySideInAPool : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    second = make_graph();
    a = at::tensor({1, 2, 3}, at::kFloat).to(at::kCUDA), b = at::tensor({4, 5, 6}, at::kFloat).to(at::kCUDA);
    c = at::tensor({6, 5, 9}, at::kFloat).to(at::kCUDA), d = at::tensor({7, 7, 10}, at::kFloat).to(at::kCUDA);
    y1 = at::zeros_like(a), y2 = at::zeros_like(a);
  }

  template <class Body>
  void capture(Graph& into, Pool pool, Body body) {
    into.capture_begin(pool);
    body();
    EXPECT_GT(captured_nodes(stream), 0);
    into.capture_end();
  }

  // The products of a and b, while the second graph adds c and d.
  void capture_product_and_sum(bool share) {
    capture(*graph, Pool{0, 0}, [&] {
      const at::Tensor product = a * b;
      ASSERT_CUDA(gate.hold(stream));
      y1.copy_(product);
    });
    capture(*second, share ? graph->pool() : Pool{0, 0}, [&] { y2.copy_(c + d); });
    gate.open();
    graph->replay();
    second->replay();
    stream.synchronize();
  }

  // What the first graph makes of a, 2 a and 3 a. `at_once` lets the second one run in its middle.
  std::vector<Values> three_products(bool at_once) {
    const c10::cuda::CUDAStream other = another_stream();
    std::vector<Values> all;
    const at::Tensor first = a.clone();
    for (const int times : {1, 2, 3}) {
      a.copy_(first * times);
      stream.synchronize();
      gate.close();
      graph->replay();
      gate.wait_until_reached();
      if (!at_once) {
        gate.open();
        stream.synchronize();
      }
      {
        const c10::cuda::CUDAStreamGuard guard(other);
        second->replay();
        other.synchronize();
      }
      gate.open();
      all.push_back(values(y1));
    }
    return all;
  }

  Gate gate;
  std::unique_ptr<Graph> second;
  at::Tensor a, b, c, d, y1, y2;
  const std::vector<Values> right{{4, 10, 18}, {8, 20, 36}, {12, 30, 54}};
};

TEST_F(GraphsSideBySideInAPool, ControlEager) {
  EXPECT_EQ(values(a * b), (Values{4, 10, 18}));
  EXPECT_EQ(values(c + d), (Values{13, 12, 19}));
}

TEST_F(GraphsSideBySideInAPool, Control) {
  capture_product_and_sum(/*share=*/true);
  EXPECT_EQ(three_products(/*at_once=*/false), right);
}

TEST_F(GraphsSideBySideInAPool, Reproduces) {
  capture_product_and_sum(/*share=*/true);
  REPRODUCES(three_products(trigger_on()), (std::vector<Values>{{13, 12, 19}, {13, 12, 19}, {13, 12, 19}}), right);
}

TEST_F(GraphsSideBySideInAPool, FixOneAfterTheOther) {
  capture_product_and_sum(/*share=*/true);
  bool at_once = true;
  REMEDY(at_once = false);
  EXPECT_EQ(three_products(at_once), right);
}

TEST_F(GraphsSideBySideInAPool, FixPoolsOfTheirOwn) {
  bool share = true;
  REMEDY(share = false);
  capture_product_and_sum(share);
  EXPECT_EQ(three_products(/*at_once=*/true), right);
}
