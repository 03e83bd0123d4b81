// Ending the captures of a conditional node's body and of the graph around it, once they are invalidated, crashes
// inside the CUDA driver.
//
// The body of an IF node is captured on a second stream, into the graph that the node owns, while the first stream
// captures the graph around it. If a call that no capture allows comes then, both are invalidated and have to be ended,
// which is the only way out of a capture. The driver frees the body's graph as its capture is ended, although the node
// still owns it, and ending the outer capture ends the process by signal 11 inside libcuda.so.1; in the other order it
// is the same. Neither LibTorch nor a kernel takes part.
//
// Each program is a fork that uses CUDA by itself, so that a crash is a result and not the end of the test.
//
// Alone:  g++ cases/hang/conditional_body_invalidated.cpp $(tools/libtorch --flags) -o conditional_body_invalidated

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "fixtures/cuda/capture.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ending the invalidated capture of a conditional body, and that around it, crashes inside the CUDA driver",
    .sources = {{"upstream", "cuda-python#2918"}},
    .documented = "Ending the parent capture afterwards segfaults inside libcuda; the other order crashes the same way",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"conditional nodes", "raw CUDA calls", "failed captures"},
    .features = {"conditional nodes"},
    .effect = Effect::Crashes,
    .fixes =
        {{"FixNothingUnsafeInTheBody",
          "Synchronize, query and allocate outside the capture of a conditional body, before it begins."},
         {"FixBuildTheBodyByNodes",
          "Add a conditional body's nodes with cudaGraphAddNode(), so that only the graph around it is captured."}},
};

namespace {

enum class Order { BodyFirst, OuterFirst };
enum class Body { Captured, CapturedOnly, ByNodes };  // CapturedOnly: nothing unsafe comes in between.

struct Program {
  cudaStream_t outer = nullptr, inner = nullptr;
  unsigned char *in = nullptr, *out = nullptr;
  cudaGraph_t graph = nullptr;

  // 0, or the number of the step that CUDA refused.
  int set_up() {
    int step = 0;
    for (const cudaError_t error : {cudaStreamCreateWithFlags(&outer, cudaStreamNonBlocking),
                                    cudaStreamCreateWithFlags(&inner, cudaStreamNonBlocking), cudaMalloc(&in, 1),
                                    cudaMalloc(&out, 1), cudaMemset(out, 0, 1), cudaDeviceSynchronize()}) {
      ++step;
      if (error != cudaSuccess) return step;
    }
    return 0;
  }

  // An IF node that holds behind what the outer stream has captured. Returns the graph of its body.
  cudaGraph_t add_condition() {
#if CUDART_VERSION >= 12040
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t* before = nullptr;
    size_t count = 0;
    cudaGraphConditionalHandle handle;
    cudaGraphNodeParams params{};
    cudaGraphNode_t node = nullptr;
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    if (cudaStreamGetCaptureInfo(outer, &status, nullptr, &graph, &before, nullptr, &count)) return nullptr;
#else
    if (cudaStreamGetCaptureInfo_v2(outer, &status, nullptr, &graph, &before, &count)) return nullptr;
#endif
    if (cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault)) return nullptr;
    params.conditional.handle = handle;
#if CUDART_VERSION >= 13000
    if (cudaGraphAddNode(&node, graph, before, nullptr, count, &params)) return nullptr;
    if (cudaStreamUpdateCaptureDependencies(outer, &node, nullptr, 1, cudaStreamSetCaptureDependencies)) return nullptr;
#else
    if (cudaGraphAddNode(&node, graph, before, count, &params)) return nullptr;
    if (cudaStreamUpdateCaptureDependencies(outer, &node, 1, cudaStreamSetCaptureDependencies)) return nullptr;
#endif
    return params.conditional.phGraph_out[0];
#else
    return nullptr;
#endif
  }

  // Captures the copy of a byte on the inner stream, into `body`. The capture stays open.
  cudaError_t capture_copy(cudaGraph_t body) const {
#if CUDART_VERSION >= 12040
    const auto mode = cudaStreamCaptureModeRelaxed;
    if (const cudaError_t error = cudaStreamBeginCaptureToGraph(inner, body, nullptr, nullptr, 0, mode)) return error;
#else
    (void)body;
#endif
    return cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, inner);
  }
};

constexpr int kAsItShouldBe = 0, kNoSetUp = 1, kNotRefused = 2, kEndedOtherwise = 3, kWrongValue = 4;

// Captures `out = in` behind a condition that holds, in whichever way. An unsafe call is refused with 900, and both
// ends return 901; without one the graph is launched with three inputs.
int run(Order order, Body way) {
  Program p;
  if (p.set_up() != 0) return kNoSetUp;
  if (cudaStreamBeginCapture(p.outer, cudaStreamCaptureModeRelaxed)) return kNoSetUp;
  cudaGraph_t body = p.add_condition();
  if (!body) return kNoSetUp;
  const bool unsafe = way == Body::Captured;
  if (way == Body::ByNodes) {
    cudaGraphNode_t node;
    if (cudaGraphAddMemcpyNode1D(&node, body, nullptr, 0, p.out, p.in, 1, cudaMemcpyDeviceToDevice)) return kNoSetUp;
  } else {
    if (p.capture_copy(body)) return kNoSetUp;
  }
  if (unsafe && cudaDeviceSynchronize() != cudaErrorStreamCaptureUnsupported) return kNotRefused;
  const cudaError_t ends = unsafe ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (way != Body::ByNodes && order == Order::BodyFirst && cudaStreamEndCapture(p.inner, &body) != ends) {
    return kEndedOtherwise;
  }
  if (cudaStreamEndCapture(p.outer, &p.graph) != ends) return kEndedOtherwise;
  if (way != Body::ByNodes && order == Order::OuterFirst && cudaStreamEndCapture(p.inner, &body) != ends) {
    return kEndedOtherwise;
  }
  if (unsafe) return kAsItShouldBe;
  cudaGraphExec_t exec = nullptr;
  if (cudaGraphInstantiateWithFlags(&exec, p.graph, 0)) return kWrongValue;
  for (const unsigned char value : {5, 7, 9}) {
    unsigned char left = 0;
    for (const cudaError_t error :
         {cudaMemsetAsync(p.in, value, 1, p.outer), cudaGraphLaunch(exec, p.outer),
          cudaMemcpyAsync(&left, p.out, 1, cudaMemcpyDeviceToHost, p.outer), cudaStreamSynchronize(p.outer)}) {
      if (error != cudaSuccess) return kWrongValue;
    }
    if (left != value) return kWrongValue;
  }
  return kAsItShouldBe;
}

// How a process ends that runs `body` and nothing else: "signal 11" or "exit 0".
std::string ending_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int ending = -1;
  EXPECT_EQ(waitpid(child, &ending, 0), child);
  return WIFSIGNALED(ending) ? "signal " + std::to_string(WTERMSIG(ending))
                             : "exit " + std::to_string(WEXITSTATUS(ending));
}

}  // namespace

class ConditionalBodyInvalidated : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
#if CUDART_VERSION < 12040
    NOT_APPLICABLE("this CUDA runtime has no conditional nodes");
#endif
    const std::string ending = ending_of([] {
      int count = 0, driver = 0;
      if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return 1;
      return cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12040 ? 0 : 2;
    });
    if (ending == "exit 1") GTEST_SKIP() << "no GPU";
    if (ending == "exit 2") NOT_APPLICABLE("this driver has no conditional nodes");
    ASSERT_EQ(ending, "exit 0");
  }
};

TEST_F(ConditionalBodyInvalidated, Control) {
  EXPECT_EQ(ending_of([] { return run(Order::BodyFirst, Body::CapturedOnly); }), "exit 0");
}

TEST_F(ConditionalBodyInvalidated, ReproducesBodyFirst) {
  Body way = Body::CapturedOnly;
  TRIGGER(way = Body::Captured);
  REPRODUCES(ending_of([&] { return run(Order::BodyFirst, way); }), "signal 11", "exit 0");
}

TEST_F(ConditionalBodyInvalidated, ReproducesOuterFirst) {
  Body way = Body::ByNodes;
  TRIGGER(way = Body::Captured);
  REPRODUCES(ending_of([&] { return run(Order::OuterFirst, way); }), "signal 11", "exit 0");
}

TEST_F(ConditionalBodyInvalidated, FixNothingUnsafeInTheBody) {
  Body way = Body::Captured;
  REMEDY(way = Body::CapturedOnly);
  EXPECT_EQ(ending_of([&] { return run(Order::BodyFirst, way); }), "exit 0");
}

TEST_F(ConditionalBodyInvalidated, FixBuildTheBodyByNodes) {
  Body way = Body::Captured;
  REMEDY(way = Body::ByNodes);
  EXPECT_EQ(ending_of([&] { return run(Order::OuterFirst, way); }), "exit 0");
}
