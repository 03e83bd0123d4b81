// A conditional handle without a default value silently keeps the value of the last launch.
//
// A kernel sets the handle on the GPU. If it does not in some launch, the handle should have its default value. A
// handle that was created without cudaGraphCondAssignDefault has none: the body runs again because it ran in the launch
// before. The documents call the value undefined. CUDA refuses misuse of handles and bodies: a handle that no node
// uses, a handle of two nodes or of another graph, and nodes that a body may not contain. A graph with a conditional
// node can be instantiated only once and cannot be cloned.
//
// Alone:  g++ cases/nodes/conditional_handle.cpp $(tools/libtorch --flags) -o conditional_handle

#include <string>

#include "fixtures/cuda/kernels.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A conditional handle without a default value keeps that of the last launch",
    .sources = {{"CUDA programming guide", "Conditional Handles"},
                {"CUDA graph nodes", "cudaGraphConditionalHandleCreate"},
                {"CUDA graph nodes", "cudaConditionalNodeParams"}},
    .documented =
        "If this flag is not provided, the condition value is undefined at the start of each graph execution; Allowed "
        "node types are kernel nodes, empty nodes, child graphs, memsets, memcopies, and conditionals",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"conditional nodes", "raw CUDA calls"},
    .features = {"conditional nodes"},
    .effects = {{"Reproduces", Effect::SilentlyWrong}},
    .fixes = {{"FixAssignDefault",
               "Create the handle with cudaGraphCondAssignDefault and the value that each launch begins with."},
              {"FixSetInEachLaunch", "Set the handle in every launch, in a kernel before the conditional node."}},
};

#if CUDART_VERSION >= 12040
class ConditionalHandle : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    int driver = 0;
    ASSERT_CUDA(cudaDriverGetVersion(&driver));
    if (driver < 12040) NOT_APPLICABLE("this driver has no conditional nodes");
    ASSERT_CUDA(cudaGraphCreate(&outer, 0));
  }

  // Adds an IF node to `in_graph`, behind `before`. Returns ok, or the number of CUDA's error.
  std::string add_if(cudaGraph_t in_graph, cudaGraphConditionalHandle handle, cudaGraphNode_t before = nullptr) {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
    const size_t count = before ? 1 : 0;
#if CUDART_VERSION >= 13000
    const cudaError_t error = cudaGraphAddNode(&conditional, in_graph, &before, nullptr, count, &params);
#else
    const cudaError_t error = cudaGraphAddNode(&conditional, in_graph, &before, count, &params);
#endif
    if (error == cudaSuccess) body = params.conditional.phGraph_out[0];
    return failure_of_code(error).text;
  }

  cudaGraphConditionalHandle handle_of(cudaGraph_t in_graph, unsigned value = 0, unsigned flags = 0) {
    cudaGraphConditionalHandle handle = 0;
    EXPECT_EQ(cudaGraphConditionalHandleCreate(&handle, in_graph, value, flags), cudaSuccess);
    return handle;
  }

  // A body that writes 7 to `out`.
  void fill_body() {
    cudaMemsetParams params{};
    params.dst = out;
    params.elementSize = 1;
    params.width = 1;
    params.height = 1;
    params.value = 7;
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddMemsetNode(&node, body, nullptr, 0, &params), cudaSuccess);
  }

  std::string instantiate(cudaGraph_t graph_to_run) {
    cudaGraphExec_t exec = nullptr;
    return failure_of_code(cudaGraphInstantiateWithFlags(&exec, graph_to_run, 0)).text;
  }

  // What launches leave in `out`. The kernel sets the handle to the value of `in`, unless that is 9.
  std::string launches(unsigned flags, int leave_alone) {
    cudaGraphNode_t decision = nullptr;
    size_t nodes = 1;
    const cudaGraphConditionalHandle handle = handle_of(outer, 0, flags);
    EXPECT_EQ(cudaStreamBeginCaptureToGraph(stream, outer, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed),
              cudaSuccess);
    EXPECT_EQ(kernels.launch("decide", stream, handle, in), CUDA_SUCCESS);
    cudaGraph_t same = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &same), cudaSuccess);
    EXPECT_EQ(cudaGraphGetNodes(outer, &decision, &nodes), cudaSuccess);
    EXPECT_EQ(add_if(outer, handle, decision), "ok");
    fill_body();
    const cudaGraphExec_t exec = instantiated(outer);
    std::string seen;
    for (const int value : {1, leave_alone, 0, leave_alone, 1}) {
      EXPECT_EQ(cudaMemsetAsync(out, 0, 1, stream), cudaSuccess);
      seen += (seen.empty() ? "" : ", ") + std::to_string(launch(exec, value));
    }
    return seen;
  }

  static constexpr char kSource[] = R"cuda(
typedef __device_builtin__ unsigned long long cudaGraphConditionalHandle;
extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);
extern "C" __global__ void decide(cudaGraphConditionalHandle handle, const unsigned char* decision) {
  if (*decision != 9) cudaGraphSetConditional(handle, *decision);
}
)cuda";

  Kernels kernels;
  cudaGraph_t outer = nullptr, body = nullptr;
  cudaGraphNode_t conditional = nullptr;
};

constexpr int kLeaveAlone = 9;
constexpr char kDefault[] = "7, 0, 0, 0, 7";

TEST_F(ConditionalHandle, Control) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(launches(cudaGraphCondAssignDefault, kLeaveAlone), kDefault);
}

// Nodes that a body may contain.
TEST_F(ConditionalHandle, ControlAllowedNodes) {
  EXPECT_EQ(add_if(outer, handle_of(outer, 1, cudaGraphCondAssignDefault)), "ok");
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddEmptyNode(&node, body, nullptr, 0));
  ASSERT_CUDA(cudaGraphAddMemcpyNode1D(&node, body, nullptr, 0, out, in, 1, cudaMemcpyDeviceToDevice));
  const cudaGraphExec_t exec = instantiated(outer);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(ConditionalHandle, Reproduces) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  unsigned flags = cudaGraphCondAssignDefault;
  TRIGGER(flags = 0);
  REPRODUCES(launches(flags, kLeaveAlone), "7, 7, 0, 0, 7", kDefault);
}

TEST_F(ConditionalHandle, ReproducesHandleOfAnotherGraph) {
  cudaGraph_t other = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&other, 0));
  cudaGraph_t of = outer;
  TRIGGER(of = other);
  REPRODUCES(add_if(outer, handle_of(of)), "1", "ok");
}

TEST_F(ConditionalHandle, ReproducesHandleOfTwoNodes) {
  const cudaGraphConditionalHandle first = handle_of(outer), second = handle_of(outer);
  cudaGraphConditionalHandle handle = second;
  ASSERT_EQ(add_if(outer, first), "ok");
  TRIGGER(handle = first);
  const std::string added = add_if(outer, handle);
  REPRODUCES(added + " > " + (added == "ok" ? instantiate(outer) : "not tried"), "1 > not tried", "ok > ok");
}

TEST_F(ConditionalHandle, ReproducesUnusedHandle) {
  EXPECT_EQ(add_if(outer, handle_of(outer)), "ok");
  TRIGGER(handle_of(outer));
  REPRODUCES(instantiate(outer), "1", "ok");
}

TEST_F(ConditionalHandle, ReproducesHostNodeInBody) {
  EXPECT_EQ(add_if(outer, handle_of(outer)), "ok");
  fill_body();
  std::string added = "ok";
  cudaGraphNode_t node = nullptr;
  cudaHostNodeParams params{};
  params.fn = [](void*) {};
  TRIGGER(added = failure_of_code(cudaGraphAddHostNode(&node, body, nullptr, 0, &params)).text);
  REPRODUCES(added + " > " + instantiate(outer), "ok > 1", "ok > ok");
}

TEST_F(ConditionalHandle, ReproducesSecondInstance) {
  TRIGGER(EXPECT_EQ(add_if(outer, handle_of(outer)), "ok"));
  const std::string first = instantiate(outer);
  REPRODUCES(first + " > " + instantiate(outer), "ok > 801", "ok > ok");
}

TEST_F(ConditionalHandle, ReproducesClone) {
  TRIGGER(EXPECT_EQ(add_if(outer, handle_of(outer)), "ok"));
  cudaGraph_t clone = nullptr;
  REPRODUCES(failure_of_code(cudaGraphClone(&clone, outer)).text, "801", "ok");
}

TEST_F(ConditionalHandle, FixAssignDefault) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  unsigned flags = 0;
  REMEDY(flags = cudaGraphCondAssignDefault);
  EXPECT_EQ(launches(flags, kLeaveAlone), kDefault);
}

TEST_F(ConditionalHandle, FixSetInEachLaunch) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  int leave_alone = kLeaveAlone;
  REMEDY(leave_alone = 0);
  EXPECT_EQ(launches(0, leave_alone), kDefault);
}
#else
class ConditionalHandle : public RuntimeTest {
 protected:
  void SetUp() override { NOT_APPLICABLE("this CUDA runtime has no conditional nodes"); }
};
#define NO_CONDITIONAL_NODES(name) \
  TEST_F(ConditionalHandle, name) { FAIL(); }
NO_CONDITIONAL_NODES(Control)
NO_CONDITIONAL_NODES(ControlAllowedNodes)
NO_CONDITIONAL_NODES(Reproduces)
NO_CONDITIONAL_NODES(ReproducesHandleOfAnotherGraph)
NO_CONDITIONAL_NODES(ReproducesHandleOfTwoNodes)
NO_CONDITIONAL_NODES(ReproducesUnusedHandle)
NO_CONDITIONAL_NODES(ReproducesHostNodeInBody)
NO_CONDITIONAL_NODES(ReproducesSecondInstance)
NO_CONDITIONAL_NODES(ReproducesClone)
NO_CONDITIONAL_NODES(FixAssignDefault)
NO_CONDITIONAL_NODES(FixSetInEachLaunch)
#endif
