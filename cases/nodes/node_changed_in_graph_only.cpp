// New parameters of a node affect a launch only if they are set in the instance; setting them in the graph has no
// effect.
//
// cudaGraphMemsetNodeSetParams() changes the cudaGraph_t. An instance that was made of it before launches as before,
// without an error. The calls that begin with cudaGraphExec change the instance. They take the node of the graph that
// was instantiated: the equal node of another capture is refused, and so is a change of a memset's height.
//
// Alone:  g++ cases/nodes/node_changed_in_graph_only.cpp $(tools/libtorch --flags) -o node_changed_in_graph_only

#include <string>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "New parameters of a graph's node do not reach an instance that was made before",
    .sources = {{"CUDA graph nodes", "cudaGraphExecMemsetNodeSetParams"}},
    .documented =
        "Updates the work represented by node in hGraphExec as though node had contained pNodeParams at instantiation. "
        "node must remain in the graph which was used to instantiate hGraphExec.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "graph updates"},
    .features = {"graph updates"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesNodeOfOtherGraph", Effect::Raises}, {"ReproducesOtherShape", Effect::Raises}},
    .fixes = {{"FixSetInTheInstance",
               "Call cudaGraphExecMemsetNodeSetParams(), or the like for another type, with the instance and the node "
               "of its graph."},
              {"FixUpdate", "Call cudaGraphExecUpdate() with the changed graph."}},
};

class NodeChangedInGraphOnly : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&rows, 1024));
    node = captured_node(&captured);
    exec = instantiated(captured);
    EXPECT_EQ(launch(exec, 0), 5);
  }

  // The only node of a new capture, which sets `out` to 5.
  cudaGraphNode_t captured_node(cudaGraph_t* made) {
    cudaGraphNode_t found = nullptr;
    size_t count = 1;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(out, 5, 1, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamEndCapture(stream, made), cudaSuccess);
    EXPECT_EQ(cudaGraphGetNodes(*made, &found, &count), cudaSuccess);
    return found;
  }

  cudaMemsetParams to(int value) {
    cudaMemsetParams params{};
    EXPECT_EQ(cudaGraphMemsetNodeGetParams(node, &params), cudaSuccess);
    params.value = static_cast<unsigned>(value);
    return params;
  }

  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  void* rows = nullptr;
};

TEST_F(NodeChangedInGraphOnly, Control) {
  for (const int value : {7, 9}) {
    const cudaMemsetParams params = to(value);
    ASSERT_CUDA(cudaGraphExecMemsetNodeSetParams(exec, node, &params));
    EXPECT_EQ(launch(exec, 0), value);
  }
}

TEST_F(NodeChangedInGraphOnly, Reproduces) {
  const cudaMemsetParams params = to(7);
  TRIGGER(EXPECT_EQ(cudaGraphMemsetNodeSetParams(node, &params), cudaSuccess));
  WITHOUT_TRIGGER(EXPECT_EQ(cudaGraphExecMemsetNodeSetParams(exec, node, &params), cudaSuccess));
  REPRODUCES(launch(exec, 0), 5, 7);
}

TEST_F(NodeChangedInGraphOnly, ReproducesNodeOfOtherGraph) {
  cudaGraph_t other = nullptr;
  cudaGraphNode_t of = node;
  TRIGGER(of = captured_node(&other));
  const cudaMemsetParams params = to(7);
  REPRODUCES(failure_of_code(cudaGraphExecMemsetNodeSetParams(exec, of, &params)).text, "1", "ok");
}

// Two rows in place of one.
TEST_F(NodeChangedInGraphOnly, ReproducesOtherShape) {
  cudaMemsetParams params = to(7);
  params.dst = rows;
  TRIGGER(params.height = 2; params.pitch = 512);
  REPRODUCES(failure_of_code(cudaGraphExecMemsetNodeSetParams(exec, node, &params)).text, "1", "ok");
}

TEST_F(NodeChangedInGraphOnly, FixSetInTheInstance) {
  for (const int value : {7, 9}) {
    const cudaMemsetParams params = to(value);
    WITHOUT_REMEDY(EXPECT_EQ(cudaGraphMemsetNodeSetParams(node, &params), cudaSuccess));
    REMEDY(EXPECT_EQ(cudaGraphExecMemsetNodeSetParams(exec, node, &params), cudaSuccess));
    EXPECT_EQ(launch(exec, 0), value);
  }
}

TEST_F(NodeChangedInGraphOnly, FixUpdate) {
  for (const int value : {7, 9}) {
    const cudaMemsetParams params = to(value);
    EXPECT_EQ(cudaGraphMemsetNodeSetParams(node, &params), cudaSuccess);
    cudaGraphExecUpdateResultInfo info{};
    REMEDY(EXPECT_EQ(cudaGraphExecUpdate(exec, captured, &info), cudaSuccess));
    EXPECT_EQ(launch(exec, 0), value);
  }
}
