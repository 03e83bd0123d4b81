// Updating an instantiated graph with a graph of another shape is refused with 910.
//
// An update may change what the nodes do, their values and addresses, but not which nodes there are or how they depend
// on each other. Here the second capture has one node more. The reason that CUDA gives beside the error is compared
// too, since 910 says only that some rule was broken. 909 is a wait that timed out; no stream capture raises it, so it
// has no case.
//
// Alone:  g++ cases/errors/e910_exec_update_failure.cpp $(tools/libtorch --flags) -o e910_exec_update_failure

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Updating an instantiated graph with one of another shape is refused with 910",
    .sources = {{"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorGraphExecUpdateFailure"},
                {"CUDA runtime API", "Graph Management: cudaGraphExecUpdate"}},
    .documented = "910 cudaErrorGraphExecUpdateFailure, the result says topology changed",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "graph updates", "several graphs"},
    .features = {"graph updates"},
    .fixes = {{"FixKeepTheShape",
               "Capture the same sequence of calls, with other values only, before you call cudaGraphExecUpdate()."},
              {"FixInstantiateAgain",
               "Call cudaGraphInstantiate() instead of cudaGraphExecUpdate() when the new graph has other nodes or "
               "dependencies."}},
};

class E910ExecUpdateFailure : public RuntimeTest {
 protected:
  // A captured graph that writes `value` to `out`, after `more` writes of zero.
  cudaGraph_t capture(int value, int more = 0) {
    cudaGraph_t result = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    for (int i = 0; i < more; ++i) EXPECT_EQ(cudaMemsetAsync(out, 0, 1, stream), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(out, value, 1, stream), cudaSuccess);
    EXPECT_EQ(captured_nodes(stream), 1 + more);
    EXPECT_EQ(cudaStreamEndCapture(stream, &result), cudaSuccess);
    return result;
  }

  // The update's error number and the reason that CUDA gives beside it.
  static std::string update(cudaGraphExec_t exec, cudaGraph_t with) {
    cudaGraphExecUpdateResultInfo info{};
    const Failure failure = failure_of_code(cudaGraphExecUpdate(exec, with, &info));
    return failure.text + " > " +
           (info.result == cudaGraphExecUpdateSuccess                ? "success"
            : info.result == cudaGraphExecUpdateErrorTopologyChanged ? "topology changed"
                                                                     : "reason " + std::to_string(info.result));
  }
};

TEST_F(E910ExecUpdateFailure, Control) {
  const cudaGraphExec_t exec = instantiated(capture(5));
  EXPECT_EQ(update(exec, capture(7)), "ok > success");
  EXPECT_EQ(launch(exec, 1), 7);
}

TEST_F(E910ExecUpdateFailure, Reproduces) {
  const cudaGraphExec_t exec = instantiated(capture(5));
  int more = 0;
  TRIGGER(more = 1);
  const cudaGraph_t other = capture(7, more);
  RAISED_BY("cuGraphExecUpdate*");
  REPRODUCES(update(exec, other), "910 > topology changed", "ok > success");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E910ExecUpdateFailure, ReproducesThroughLibTorch) {
  if (!std::is_constructible_v<Graph, bool>) NOT_APPLICABLE("this release keeps no cudaGraph_t");
  const at::Tensor data = at::zeros({1}, at::kCUDA);
  const auto first = make_graph(true), second = make_graph(true);
  first->capture_begin();
  data.fill_(5);
  first->capture_end();
  second->capture_begin();
  data.fill_(7);
  TRIGGER(data.fill_(9));
  second->capture_end();
  const cudaGraphExec_t exec = instantiated(raw_graph(*first));
  RAISED_BY("cuGraphExecUpdate*");
  REPRODUCES(update(exec, raw_graph(*second)), "910 > topology changed", "ok > success");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E910ExecUpdateFailure, FixKeepTheShape) {
  const cudaGraphExec_t exec = instantiated(capture(5));
  EXPECT_EQ(launch(exec, 1), 5);
  int more = 0;
  WITHOUT_REMEDY(more = 1);
  for (const int value : {7, 9}) {
    EXPECT_EQ(update(exec, capture(value, more)), "ok > success");
    EXPECT_EQ(launch(exec, 1), value);
  }
}

TEST_F(E910ExecUpdateFailure, FixInstantiateAgain) {
  cudaGraphExec_t exec = instantiated(capture(5));
  EXPECT_EQ(launch(exec, 1), 5);
  for (const int value : {7, 9}) {
    const cudaGraph_t other = capture(value, 1);
    REMEDY(exec = instantiated(other));
    WITHOUT_REMEDY(EXPECT_EQ(update(exec, other), "ok > success"));
    EXPECT_EQ(launch(exec, 1), value);
  }
}
