// Unloading a captured kernel before the graph is instantiated crashes the process.
//
// A graph does not keep its kernels loaded. A capture in relaxed mode does not refuse to unload one, as a library does
// when the last reference to a compiled kernel goes away. The graph then has a node whose function is gone, and the
// process ends with signal 11.
//
// Each program is a fork that uses CUDA by itself, so that a crash is a result and not the end of the test.
//
// Alone:  g++ cases/libraries/captured_kernel_unloaded.cpp $(tools/libtorch --flags) -o captured_kernel_unloaded

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <type_traits>

#include "fixtures/cuda/capture.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured kernel whose module is unloaded before the graph is instantiated crashes the process",
    .sources = {{"upstream", "sglang#35427"}, {"CUDA runtime API", "cudaStreamBeginCapture: cudaStreamCaptureMode"}},
    .documented = "not documented; found by trying: signal 11",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"runtime compilation", "extensions", "raw CUDA calls"},
    .effect = Effect::Crashes,
    .fixes = {{"FixUnloadAfterTheReplays",
               "Keep every captured kernel referenced, and so loaded, for as long as the graph is replayed."}},
};

namespace {

constexpr char kCopy[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry copy(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<3>;
  .reg .b16 %rs<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.global.u8 %rs1, [%rd2];
  st.global.u8 [%rd1], %rs1;
  ret;
}
)";

constexpr int kAsItShouldBe = 0, kNoSetUp = 1, kRefused = 2, kWrongValue = 3;

enum class Unload { InTheCapture, AfterTheReplays };

// Captures `out = in` in relaxed mode, and replays it with three inputs.
int run(Unload when) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return kNoSetUp;
  int (*load_data)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t,
                       void**, void**) = nullptr;
  int (*unload_module)(void*) = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(driver, name));
    return function != nullptr;
  };
  if (!find(load_data, "cuModuleLoadData") || !find(get_function, "cuModuleGetFunction") ||
      !find(launch_kernel, "cuLaunchKernel") || !find(unload_module, "cuModuleUnload")) {
    return kNoSetUp;
  }
  void *in = nullptr, *out = nullptr, *module = nullptr, *copy = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) || cudaMalloc(&in, 1) || cudaMalloc(&out, 1) ||
      load_data(&module, kCopy) || get_function(&copy, module, "copy") || cudaDeviceSynchronize()) {
    return kNoSetUp;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  void* arguments[] = {&out, &in};
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)) return kNoSetUp;
  if (launch_kernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr)) return kRefused;
  if (when == Unload::InTheCapture && unload_module(module)) return kRefused;
  if (cudaStreamEndCapture(stream, &graph)) return kRefused;
  if (cudaGraphInstantiateWithFlags(&exec, graph, 0)) return kRefused;
  for (const unsigned char value : {5, 7, 9}) {
    unsigned char left = 0;
    for (const cudaError_t error :
         {cudaMemsetAsync(in, value, 1, stream), cudaGraphLaunch(exec, stream),
          cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream), cudaStreamSynchronize(stream)}) {
      if (error != cudaSuccess) return kWrongValue;
    }
    if (left != value) return kWrongValue;
  }
  if (when == Unload::AfterTheReplays && unload_module(module)) return kRefused;
  return kAsItShouldBe;
}

// How a process ends that runs only `body`: "signal 11" or "exit 0".
std::string ending_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int ending = -1;
  EXPECT_EQ(waitpid(child, &ending, 0), child);
  return WIFSIGNALED(ending) ? "signal " + std::to_string(WTERMSIG(ending))
                             : "exit " + std::to_string(WEXITSTATUS(ending));
}

}  // namespace

class CapturedKernelUnloaded : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
    const std::string ending = ending_of([] {
      int count = 0;
      return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? 0 : 1;
    });
    if (ending == "exit 1") GTEST_SKIP() << "no GPU";
    ASSERT_EQ(ending, "exit 0");
  }
};

TEST_F(CapturedKernelUnloaded, Control) {
  EXPECT_EQ(ending_of([] { return run(Unload::AfterTheReplays); }), "exit 0");
}

TEST_F(CapturedKernelUnloaded, Reproduces) {
  Unload when = Unload::AfterTheReplays;
  TRIGGER(when = Unload::InTheCapture);
  REPRODUCES(ending_of([&] { return run(when); }), "signal 11", "exit 0");
}

TEST_F(CapturedKernelUnloaded, FixUnloadAfterTheReplays) {
  Unload when = Unload::InTheCapture;
  REMEDY(when = Unload::AfterTheReplays);
  EXPECT_EQ(ending_of([&] { return run(when); }), "exit 0");
}
