// A change of the graph that keep_graph=True keeps does not affect replays until instantiate() is called again.
//
// replay() launches the instance that instantiate() made of the kept cudaGraph_t. A node that the program adds or
// changes later is in the graph but not in the instance, so the replay runs as before, without an error. If
// instantiate() was never called, older releases call it in LibTorch's replay(). That of 2.14 raises instead, and only
// Python's still calls it.
//
// Alone:  g++ cases/nodes/changed_graph_not_instantiated.cpp $(tools/libtorch --flags) -o changed_graph_not_instantiated

#include <type_traits>
#include <utility>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A change of a kept graph does not reach its replays until it is instantiated again",
    .sources = {{"PyTorch documentation", "torch.cuda.CUDAGraph: keep_graph"}, {"upstream", "pytorch#187740"}},
    .documented = "the user must call instantiate again manually to make sure the instantiated graph has these changes",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"graph updates", "raw CUDA calls"},
    .features = {"graph updates"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesReplayBeforeInstantiate", Effect::Raises}},
    .fixes = {{"FixInstantiateAgain", "Call instantiate() after each change of raw_cuda_graph(), before replay()."},
              {"FixChangeBeforeInstantiate",
               "Change raw_cuda_graph() between capture_end() and the first instantiate(), and call that before the "
               "first replay()."}},
};

// Where replay() no longer instantiates, its caller has this member to ask whether that is left to do.
template <class G, class = void>
constexpr bool kReplayInstantiates = true;
template <class G>
constexpr bool kReplayInstantiates<G, std::void_t<decltype(std::declval<const G&>().has_graph_exec())>> = false;

class ChangedGraphNotInstantiated : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!std::is_constructible_v<Graph, bool>) NOT_APPLICABLE("this release keeps no cudaGraph_t");
    data = at::zeros({4}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
    graph = make_graph(true);
    graph->capture_begin();
    data.fill_(5);
    graph->capture_end();
  }

  // Adds a node behind all others, which sets the elements to 7.
  void add_node() {
    cudaGraphNode_t last = nullptr, node = nullptr;
    size_t nodes = 1;
    ASSERT_CUDA(cudaGraphGetNodes(raw_graph(*graph), &last, &nodes));
    cudaMemsetParams params{};
    params.dst = data.data_ptr();
    params.elementSize = 1;
    params.width = 4;
    params.height = 1;
    params.value = 7;
    ASSERT_CUDA(cudaGraphAddMemsetNode(&node, raw_graph(*graph), &last, 1, &params));
  }

  std::vector<double> replayed() {
    data.zero_();
    graph->replay();
    return values(data);
  }

  at::Tensor data;
  const std::vector<double> kBefore{5, 5, 5, 5}, kChanged{7, 7, 7, 7};
};

TEST_F(ChangedGraphNotInstantiated, Control) {
  EXPECT_TRUE(instantiate(*graph));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(replayed(), kBefore);
}

TEST_F(ChangedGraphNotInstantiated, Reproduces) {
  EXPECT_TRUE(instantiate(*graph));
  EXPECT_EQ(replayed(), kBefore);
  add_node();
  WITHOUT_TRIGGER(EXPECT_TRUE(instantiate(*graph)));
  REPRODUCES(replayed(), kBefore, kChanged);
}

TEST_F(ChangedGraphNotInstantiated, ReproducesReplayBeforeInstantiate) {
  if (kReplayInstantiates<Graph>) NOT_APPLICABLE("this release's replay() instantiates by itself");
  WITHOUT_TRIGGER(EXPECT_TRUE(instantiate(*graph)));
  const Failure failure = failure_of([&] { replayed(); });
  REPRODUCES(failure.text, "check \"Called CUDAGraph::replay before the graph was instantiated*\"", "ok");
}

TEST_F(ChangedGraphNotInstantiated, FixInstantiateAgain) {
  EXPECT_TRUE(instantiate(*graph));
  EXPECT_EQ(replayed(), kBefore);
  add_node();
  REMEDY(EXPECT_TRUE(instantiate(*graph)));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(replayed(), kChanged);
}

TEST_F(ChangedGraphNotInstantiated, FixChangeBeforeInstantiate) {
  WITHOUT_REMEDY(EXPECT_TRUE(instantiate(*graph)));
  add_node();
  REMEDY(EXPECT_TRUE(instantiate(*graph)));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(replayed(), kChanged);
}
