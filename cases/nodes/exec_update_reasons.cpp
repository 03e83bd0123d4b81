// cudaGraphExecUpdate() refuses not only another shape, but also another type of node, and a cooperative kernel in
// place of an ordinary one.
//
// Both return error 910, with the reason in the result info. A program that captures again and updates has to
// instantiate again if the update is refused. Another function of a kernel is allowed, and so is pinned memory in place
// of GPU memory. For another shape, see e910_exec_update_failure.
//
// Alone:  g++ cases/nodes/exec_update_reasons.cpp $(tools/libtorch --flags) -o exec_update_reasons

#include <string>

#include "fixtures/cuda/kernels.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Updating an instantiated graph is refused if a node's type or a kernel's kind of launch has changed",
    .sources = {{"CUDA graph nodes", "cudaGraphExecUpdate"}},
    .documented =
        "910 cudaErrorGraphExecUpdateFailure; cudaGraphExecUpdateErrorNodeTypeChanged (3), ParametersChanged (5), "
        "NotSupported (6), UnsupportedFunctionChange (7), AttributesChanged (8)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "graph updates", "several graphs"},
    .features = {"graph updates"},
    .fixes = {{"FixInstantiateAgain",
               "Call cudaGraphInstantiate() for the new graph if cudaGraphExecUpdate() returns 910."},
              {"FixSameKindOfNode", "Capture the same calls, with other values and addresses only."}},
};

class ExecUpdateReasons : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&further, 1));
    ASSERT_CUDA(cudaMallocHost(&pinned, 1));
  }

  template <class F>
  cudaGraph_t capture(F work) {
    cudaGraph_t made = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    work();
    EXPECT_EQ(captured_nodes(stream), 1);
    EXPECT_EQ(cudaStreamEndCapture(stream, &made), cudaSuccess);
    return made;
  }
  cudaGraph_t capture_set(int value) {
    return capture([&] { EXPECT_EQ(cudaMemsetAsync(out, value, 1, stream), cudaSuccess); });
  }
  cudaGraph_t capture_copy(void* from) {
    return capture([&] { EXPECT_EQ(cudaMemcpyAsync(out, from, 1, cudaMemcpyDefault, stream), cudaSuccess); });
  }
  cudaGraph_t capture_kernel(bool cooperative, const char* name) {
    return capture([&] {
      EXPECT_EQ(cooperative ? kernels.launch_cooperative(name, stream, out, in) : kernels.launch(name, stream, out, in),
                CUDA_SUCCESS);
    });
  }

  // The update's error number and the reason that CUDA gives beside it.
  static std::string update(cudaGraphExec_t exec, cudaGraph_t with) {
    cudaGraphExecUpdateResultInfo info{};
    const Failure failure = failure_of_code(cudaGraphExecUpdate(exec, with, &info));
    return failure.text + " > reason " + std::to_string(info.result);
  }

  static constexpr char kSource[] = R"cuda(
extern "C" __global__ void copy(unsigned char* out, const unsigned char* in) { *out = *in; }
extern "C" __global__ void twice(unsigned char* out, const unsigned char* in) { *out = *in * 2; }
)cuda";

  Kernels kernels;
  void* further = nullptr;
  void* pinned = nullptr;
};

constexpr char kDone[] = "ok > reason 0";

TEST_F(ExecUpdateReasons, Control) {
  const cudaGraphExec_t exec = instantiated(capture_copy(further));
  EXPECT_EQ(update(exec, capture_copy(in)), kDone);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

// Another function is allowed.
TEST_F(ExecUpdateReasons, ControlOtherKernel) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  const cudaGraphExec_t exec = instantiated(capture_kernel(false, "copy"));
  EXPECT_EQ(update(exec, capture_kernel(false, "twice")), kDone);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), 2 * value);
}

// So is pinned memory: with unified addresses it has the same memory type.
TEST_F(ExecUpdateReasons, ControlPinnedMemory) {
  const cudaGraphExec_t exec = instantiated(capture_copy(in));
  EXPECT_EQ(launch(exec, 5), 5);
  EXPECT_EQ(update(exec, capture_copy(pinned)), kDone);
  for (const int value : {7, 9}) {
    *static_cast<unsigned char*>(pinned) = static_cast<unsigned char>(value);
    EXPECT_EQ(launch(exec, 1), value);
  }
}

TEST_F(ExecUpdateReasons, ReproducesNodeType) {
  const cudaGraphExec_t exec = instantiated(capture_copy(in));
  cudaGraph_t other = capture_copy(further);
  TRIGGER(other = capture_set(7));
  RAISED_BY("cuGraphExecUpdate*");
  REPRODUCES(update(exec, other), "910 > reason 3", kDone);
}

TEST_F(ExecUpdateReasons, ReproducesCooperativeKernel) {
  if (const std::string reason = kernels.load(kSource); !reason.empty()) GTEST_SKIP() << reason;
  const cudaGraphExec_t exec = instantiated(capture_kernel(false, "copy"));
  bool cooperative = false;
  TRIGGER(cooperative = true);
  const cudaGraph_t other = capture_kernel(cooperative, "copy");
  RAISED_BY("cuGraphExecUpdate*");
  REPRODUCES(update(exec, other), "910 > reason 8", kDone);
}

TEST_F(ExecUpdateReasons, FixInstantiateAgain) {
  cudaGraphExec_t exec = instantiated(capture_copy(in));
  EXPECT_EQ(launch(exec, 5), 5);
  for (const int value : {7, 9}) {
    const cudaGraph_t other = capture_set(value);
    REMEDY(exec = instantiated(other));
    WITHOUT_REMEDY(EXPECT_EQ(update(exec, other), kDone));
    EXPECT_EQ(launch(exec, 1), value);
  }
}

TEST_F(ExecUpdateReasons, FixSameKindOfNode) {
  const cudaGraphExec_t exec = instantiated(capture_copy(further));
  cudaGraph_t other = capture_set(7);
  REMEDY(other = capture_copy(in));
  EXPECT_EQ(update(exec, other), kDone);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
