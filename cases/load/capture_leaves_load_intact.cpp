// Capturing and replaying a graph does not harm loading, whatever the graph holds and however the capture ends.
//
// The report blames the decoder's graphs for torch.load's failures. nvrtc_log_in_shared_bytes shows that the damage
// needs no graph; here graphs do no damage. One to ten and more tensors, on the CPU and on the GPU, with the dimension
// 32 that breaks first there, are saved and loaded intact after a plain capture with replays, after one in thread_local
// mode, which the decoder uses, after a capture that failed, and after a conditional WHILE node, the decoder's loop. No
// Python is in the process: LibTorch's own reader of the same format loads them.
//
// No failure is to be reproduced here, so there is no trigger and nothing to fix: every test is a control.
//
// Alone:  g++ cases/load/capture_leaves_load_intact.cpp $(tools/libtorch --flags) -o capture_leaves_load_intact

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <cuda.h>
#include <dlfcn.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Capture, replay, a failed capture and a WHILE node leave saving and loading tensors intact",
    .sources = {{"load corruption", "Describe the bug"},
                {"load corruption", "Expected behavior"},
                {"upstream", "NeMo#15790"}},
    .documented = "CUDA graph capture/replay should not have side effects on serialization; it has none",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.load", "conditional nodes", "failed captures", "NeMo"},
    .features = {"torch.load"},
    .effect = Effect::Works,
};

// Saves and loads tables of named tensors of several sizes; "intact" or what came back wrong first.
std::string save_and_load() {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)}) {
    for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 33, 63}) {
      c10::Dict<std::string, at::Tensor> saved;
      for (int i = 0; i < count; ++i) {
        saved.insert("layer." + std::to_string(i), at::full({32, 32}, i + 0.5, at::TensorOptions().device(device)));
      }
      const c10::IValue loaded = torch::jit::pickle_load(torch::jit::pickle_save(saved));
      const auto table = loaded.toGenericDict();
      const std::string where = std::to_string(count) + " on " + device.str();
      if (table.size() != saved.size()) return where + ": " + std::to_string(table.size()) + " came back";
      for (const auto& entry : saved) {
        if (!at::equal(table.at(entry.key()).toTensor().cpu(), entry.value().cpu())) return where + ": " + entry.key();
      }
    }
  }
  return "intact";
}

class CaptureLeavesLoadIntact : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    in = at::full({1}, 1, at::kCUDA);
    ASSERT_EQ(save_and_load(), "intact");
  }

  void capture_and_replay(cudaStreamCaptureMode mode) {
    graph->capture_begin({0, 0}, mode);
    const at::Tensor out = in * 2;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {3, 4}) {
      in.fill_(value);
      graph->replay();
      EXPECT_EQ(values(out), std::vector<double>{2.0 * value});
      EXPECT_EQ(save_and_load(), "intact");
    }
  }

  at::Tensor in;
};

TEST_F(CaptureLeavesLoadIntact, ControlGlobalMode) { capture_and_replay(cudaStreamCaptureModeGlobal); }

TEST_F(CaptureLeavesLoadIntact, ControlThreadLocalMode) { capture_and_replay(cudaStreamCaptureModeThreadLocal); }

TEST_F(CaptureLeavesLoadIntact, ControlFailedCapture) {
  graph->capture_begin();
  const at::Tensor out = in * 2;
  const Failure first = failure_of_code(cudaStreamSynchronize(stream));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  EXPECT_EQ(seen(first, status, end), "900 > invalidated > 901");
  cudaGetLastError();
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
  EXPECT_EQ(save_and_load(), "intact");
}

#if CUDART_VERSION >= 12040
// A WHILE node as the decoder builds it: a predicate that NVRTC compiled, its body captured into the node's own graph.
constexpr char kPredicate[] = R"cuda(
typedef __device_builtin__ unsigned long long cudaGraphConditionalHandle;
extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);
extern "C" __global__ void count_down(cudaGraphConditionalHandle handle, int* left) {
  cudaGraphSetConditional(handle, --*left > 0);
}
)cuda";

#endif

TEST_F(CaptureLeavesLoadIntact, ControlWhileNode) {
#if CUDART_VERSION < 12040
  NOT_APPLICABLE("this CUDA runtime has no conditional nodes");
#else
  if (!nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
  int driver = 0;
  ASSERT_CUDA(cudaDriverGetVersion(&driver));
  if (driver < 12040) GTEST_SKIP() << "no WHILE nodes: the driver is for CUDA " << driver / 1000;

  Nvrtc::Program program;
  const auto* device = at::cuda::getCurrentDeviceProperties();
  // Machine code: a driver older than NVRTC does not know its PTX.
  const std::string option = "--gpu-architecture=sm_" + std::to_string(device->major * 10 + device->minor);
  const char* options[] = {option.c_str()};
  ASSERT_EQ(nvrtc().nvrtcCreateProgram(&program, kPredicate, "count_down.cu", 0, nullptr, nullptr), 0);
  ASSERT_EQ(nvrtc().nvrtcCompileProgram(program, 1, options), 0);
  size_t size = 0;
  ASSERT_EQ(nvrtc().nvrtcGetCUBINSize(program, &size), 0);
  std::string cubin(size, ' ');
  ASSERT_EQ(nvrtc().nvrtcGetCUBIN(program, cubin.data()), 0);

  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto load = reinterpret_cast<decltype(&cuModuleLoadData)>(dlsym(library, "cuModuleLoadData"));
  const auto find = reinterpret_cast<decltype(&cuModuleGetFunction)>(dlsym(library, "cuModuleGetFunction"));
  const auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(library, "cuLaunchKernel"));
  CUmodule module;
  CUfunction count_down;
  ASSERT_EQ(load(&module, cubin.data()), CUDA_SUCCESS);
  ASSERT_EQ(find(&count_down, module, "count_down"), CUDA_SUCCESS);

  at::Tensor left = at::full({1}, 5, at::TensorOptions().device(at::kCUDA).dtype(at::kInt));
  cudaGraph_t outer = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&outer, 0));
  cudaGraphConditionalHandle handle;
  ASSERT_CUDA(cudaGraphConditionalHandleCreate(&handle, outer, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
  ASSERT_CUDA(cudaGraphAddNode(&node, outer, nullptr, nullptr, 0, &params));
#else
  ASSERT_CUDA(cudaGraphAddNode(&node, outer, nullptr, 0, &params));
#endif
  cudaGraph_t body = params.conditional.phGraph_out[0];
  ASSERT_CUDA(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
  int* address = left.data_ptr<int>();
  void* arguments[] = {&handle, &address};
  ASSERT_EQ(launch(count_down, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), CUDA_SUCCESS);
  EXPECT_GT(captured_nodes(stream), 0);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &body));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, outer, 0));
  for (const int loops : {5, 9}) {
    left.fill_(loops);
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    EXPECT_EQ(values(left), std::vector<double>{0});
    EXPECT_EQ(save_and_load(), "intact");
  }
#endif
}
