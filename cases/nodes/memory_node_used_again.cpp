// A graph that allocates memory without freeing it cannot be launched twice, and no graph that allocates can be
// instantiated twice, cloned or made a child.
//
// cudaMallocAsync() in a capture becomes a node whose address is fixed when the graph is built. While the allocation of
// one launch is not freed, the next launch cannot have that address and is refused. For the same reason such a graph
// has one instance at a time and no copies. PyTorch instantiates its graphs with
// cudaGraphInstantiateFlagAutoFreeOnLaunch. Other libraries that call cudaMallocAsync() in a capture must free the
// memory in the same graph or after each launch.
//
// Alone:  g++ cases/nodes/memory_node_used_again.cpp $(tools/libtorch --flags) -o memory_node_used_again

#include <string>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graph that allocates memory and does not free it is refused at its second launch",
    .sources = {{"CUDA graph nodes", "cudaGraphAddMemAllocNode"}, {"CUDA graph nodes", "cudaGraphLaunch"}},
    .documented =
        "cudaErrorInvalidValue(1); Only one instantiation of the graph may exist at any point in time; The graph "
        "cannot be cloned; The graph can only be used in a child node if the ownership is moved to the parent",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "extensions", "memory pools"},
    .features = {"raw CUDA calls"},
    .fixes =
        {{"FixFreeInTheGraph", "Call cudaFreeAsync() in the same capture, behind the last use of the memory."},
         {"FixFreeAfterEachLaunch", "Call cudaFreeAsync() on the stream after each launch."},
         {"FixAutoFreeOnLaunch",
          "Instantiate the graph with cudaGraphInstantiateFlagAutoFreeOnLaunch: each launch frees what the last one "
          "left."},
         {"FixBuildAgain", "Capture the graph again in place of a clone or a second instance."}},
};

class MemoryNodeUsedAgain : public RuntimeTest {
 protected:
  enum class Memory { None, Kept, Freed };

  // Captures a graph that copies `in` to `out`, through memory that the graph allocates unless `memory` is None.
  cudaGraph_t capture(Memory memory) {
    cudaGraph_t made = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    void* between = further;
    if (memory != Memory::None) {
      EXPECT_EQ(cudaMallocAsync(&allocated, 1, stream), cudaSuccess);
      between = allocated;
    }
    EXPECT_EQ(cudaMemcpyAsync(between, in, 1, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(out, between, 1, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    if (memory == Memory::Freed) {
      EXPECT_EQ(cudaFreeAsync(allocated, stream), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamEndCapture(stream, &made), cudaSuccess);
    return made;
  }

  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    int supported = 0;
    ASSERT_CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported) GTEST_SKIP() << "this GPU has no memory pools";
    ASSERT_CUDA(cudaMalloc(&further, 1));
  }

  // What three launches leave in `out`, or the error of one that is refused. `after` runs after each.
  template <class F>
  std::string launches(cudaGraphExec_t exec, F after) {
    std::string seen;
    for (const int value : {5, 7, 9}) {
      unsigned char left = 0;
      EXPECT_EQ(cudaMemsetAsync(in, value, 1, stream), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(out, 0, 1, stream), cudaSuccess);
      const Failure failure = failure_of_code(cudaGraphLaunch(exec, stream));
      after();
      EXPECT_EQ(cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      seen += (seen.empty() ? "" : ", ") + (failure ? "error " + failure.text : std::to_string(left));
    }
    return seen;
  }
  std::string launches(cudaGraphExec_t exec) {
    return launches(exec, [] {});
  }

  void* further = nullptr;
  void* allocated = nullptr;  // The address of the last captured allocation.
};

constexpr char kAll[] = "5, 7, 9";

TEST_F(MemoryNodeUsedAgain, Control) { EXPECT_EQ(launches(instantiated(capture(Memory::Freed))), kAll); }

TEST_F(MemoryNodeUsedAgain, Reproduces) {
  Memory memory = Memory::Freed;
  TRIGGER(memory = Memory::Kept);
  const cudaGraphExec_t exec = instantiated(capture(memory));
  REPRODUCES(launches(exec), "5, error 1, error 1", kAll);
}

TEST_F(MemoryNodeUsedAgain, ReproducesSecondInstance) {
  Memory memory = Memory::None;
  TRIGGER(memory = Memory::Freed);
  const cudaGraph_t graph_to_run = capture(memory);
  instantiated(graph_to_run);
  cudaGraphExec_t second = nullptr;
  REPRODUCES(failure_of_code(cudaGraphInstantiateWithFlags(&second, graph_to_run, 0)).text, "801", "ok");
}

TEST_F(MemoryNodeUsedAgain, ReproducesClone) {
  Memory memory = Memory::None;
  TRIGGER(memory = Memory::Freed);
  const cudaGraph_t graph_to_run = capture(memory);
  cudaGraph_t clone = nullptr;
  REPRODUCES(failure_of_code(cudaGraphClone(&clone, graph_to_run)).text, "801", "ok");
}

TEST_F(MemoryNodeUsedAgain, ReproducesChild) {
  Memory memory = Memory::None;
  TRIGGER(memory = Memory::Freed);
  const cudaGraph_t child = capture(memory);
  cudaGraph_t parent = nullptr;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&parent, 0));
  REPRODUCES(failure_of_code(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, child)).text, "801", "ok");
}

TEST_F(MemoryNodeUsedAgain, FixFreeInTheGraph) {
  Memory memory = Memory::Kept;
  REMEDY(memory = Memory::Freed);
  EXPECT_EQ(launches(instantiated(capture(memory))), kAll);
}

TEST_F(MemoryNodeUsedAgain, FixFreeAfterEachLaunch) {
  const cudaGraphExec_t exec = instantiated(capture(Memory::Kept));
  const auto after = [&] { REMEDY(EXPECT_EQ(cudaFreeAsync(allocated, stream), cudaSuccess)); };
  EXPECT_EQ(launches(exec, after), kAll);
}

TEST_F(MemoryNodeUsedAgain, FixAutoFreeOnLaunch) {
  unsigned long long flags = 0;
  REMEDY(flags = cudaGraphInstantiateFlagAutoFreeOnLaunch);
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, capture(Memory::Kept), flags));
  EXPECT_EQ(launches(exec), kAll);
}

TEST_F(MemoryNodeUsedAgain, FixBuildAgain) {
  const cudaGraph_t first = capture(Memory::Freed);
  cudaGraph_t second = first;
  const cudaGraphExec_t exec = instantiated(first);
  REMEDY(second = capture(Memory::Freed));
  cudaGraphExec_t another = nullptr;
  EXPECT_EQ(cudaGraphInstantiateWithFlags(&another, second, 0), cudaSuccess);
  EXPECT_EQ(launches(exec), kAll);
  EXPECT_EQ(launches(another ? another : exec), kAll);
}
