// Unloading a module on the capturing thread invalidates the capture.
//
// Libraries that compile kernels at run time unload them when the last reference goes away: Warp, and Triton from 3.7
// on. That happens where a reference is dropped or when Python's collector runs, in a capture too. CUDA refuses it
// there, like cudaFree. gc.disable() stops only the collector: kernels that an autotuner rejects go away by reference
// counting. For another thread, see module_loaded_in_other_thread; for a kernel of the graph itself,
// captured_kernel_unloaded.
//
// Alone:  g++ cases/libraries/module_unloaded_in_capture.cpp $(tools/libtorch --flags) -o module_unloaded_in_capture

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Unloading a kernel's module in a capture invalidates the capture",
    .sources = {{"upstream", "warp#401"}, {"upstream", "triton#10712"}, {"upstream", "sglang#35427"}},
    .documented =
        "Triton Error [HIP]: Code: 900, operation not permitted when stream is capturing, in CompiledKernel.__del__",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"runtime compilation", "extensions", "raw CUDA calls"},
    .fixes = {{"FixUnloadAfterTheCapture",
               "Keep every compiled kernel referenced until the capture has ended, including those that an autotuner "
               "rejects; gc.disable() is not enough."}},
};

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

class ModuleUnloadedInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(driver, nullptr) << dlerror();
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(driver, name));
      ASSERT_NE(function, nullptr) << name;
    };
    find(load_data, "cuModuleLoadData");
    find(get_function, "cuModuleGetFunction");
    find(launch_kernel, "cuLaunchKernel");
    find(unload_module, "cuModuleUnload");
    if (const int error = load_data(&module, kCopy)) GTEST_SKIP() << "the driver cannot compile PTX: error " << error;
    ASSERT_EQ(load_data(&other, kCopy), 0);
    ASSERT_EQ(get_function(&copy, module, "copy"), 0);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void launch_copy() {
    void* arguments[] = {&out, &in};
    EXPECT_EQ(launch_kernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr), 0);
  }

  Failure unload(void* which) { return failure_of_code(unload_module(which)); }

  int (*load_data)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t,
                       void**, void**) = nullptr;
  int (*unload_module)(void*) = nullptr;
  void *module = nullptr, *other = nullptr, *copy = nullptr;
};

TEST_F(ModuleUnloadedInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_copy();
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(unload(other).text, "ok");
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(ModuleUnloadedInCapture, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_copy();
  TRIGGER(first = unload(other));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuModuleUnload*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ModuleUnloadedInCapture, ReproducesInThreadLocalMode) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  launch_copy();
  TRIGGER(first = unload(other));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuModuleUnload*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ModuleUnloadedInCapture, FixUnloadAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_copy();
  WITHOUT_REMEDY(unload(other));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(EXPECT_EQ(unload(other).text, "ok"));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
