// Loading a module beside a capture in global mode invalidates it with drivers older than CUDA 12.3.
//
// A compiler of kernels, such as Warp's or Triton's, loads what it compiled at the first use, in whichever thread that
// happens. With drivers of CUDA 12.2 and older loading counted as potentially unsafe; newer ones allow it, as they had
// to when they began to load kernels lazily. So one program fails or not by the machine that it runs on, and by whether
// its cache of kernels is warm. Unloading is another matter: mostly the garbage collector does it, at any moment, and
// it was unsafe with each driver that was tried (580). A module here is a kernel that does nothing, as PTX, which the
// driver compiles. On the capturing thread, through LibTorch: first_runtime_compilation_in_capture.
//
// Alone:  g++ cases/threads/module_loaded_in_other_thread.cpp $(tools/libtorch --flags) -o module_loaded_in_other_thread

#include <dlfcn.h>

#include <thread>
#include <type_traits>
#include <vector>

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Loading or unloading a module in another thread invalidates a capture",
    .sources = {{"upstream", "newton#892"}, {"upstream", "soma-retargeter#15"}},
    .documented = "Warp CUDA error 900: operation not permitted when stream is capturing; Loading module failed",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads", "runtime compilation", "torch.compile"},
    .features = {"threads", "runtime compilation"},
    .fixes = {{"FixLoadBefore",
               "Load modules before the capture begins: run each kernel once, or install a driver for CUDA 12.3."},
              {"FixUnloadAfterTheCapture",
               "Keep modules referenced until the capture has ended; gc.collect() before it and gc.disable() in it."}},
};

constexpr char kKernel[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";

class ModuleLoadedInOtherThread : public RuntimeTest {
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
    find(get_context, "cuCtxGetCurrent");
    find(set_context, "cuCtxSetCurrent");
    find(load_data, "cuModuleLoadData");
    find(unload_module, "cuModuleUnload");
    ASSERT_EQ(get_context(&context), 0);
    const cudaError_t error = load();
    if (error != cudaSuccess) GTEST_SKIP() << "the driver cannot compile PTX here: error " << error;
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // The driver's error numbers are the runtime's. A new thread has no context, and asking the runtime for one could be
  // refused in its own right.
  cudaError_t load() {
    void* module = nullptr;
    if (const int error = set_context(context)) return static_cast<cudaError_t>(error);
    const auto error = static_cast<cudaError_t>(load_data(&module, kKernel));
    if (error == cudaSuccess) loaded.push_back(module);
    return error;
  }

  cudaError_t unload() {
    void* const module = loaded.back();
    loaded.pop_back();
    if (const int error = set_context(context)) return static_cast<cudaError_t>(error);
    return static_cast<cudaError_t>(unload_module(module));
  }

  // From start to end between two calls of this thread.
  template <class Call>
  static Failure elsewhere(Call&& call) {
    Failure failure;
    std::thread([&] { failure = failure_of_code(call()); }).join();
    return failure;
  }

  int (*get_context)(void**) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*load_data)(void**, const void*) = nullptr;
  int (*unload_module)(void*) = nullptr;
  void* context = nullptr;
  std::vector<void*> loaded;
};

TEST_F(ModuleLoadedInOtherThread, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(elsewhere([&] { return load(); }).text, "ok");
  EXPECT_EQ(elsewhere([&] { return unload(); }).text, "ok");
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(ModuleLoadedInOtherThread, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = elsewhere([&] { return load(); }));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuModuleLoadData*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ModuleLoadedInOtherThread, ReproducesInEachMode) {
  const auto call = [&](const Beside&) {
    TRIGGER(return load());
    return cudaSuccess;
  };
  RAISED_BY("cuModuleLoadData*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(ModuleLoadedInOtherThread, ReproducesUnloadInEachMode) {
  for (int i = 0; i < kCaptures; ++i) ASSERT_CUDA(load());
  const auto call = [&](const Beside&) {
    TRIGGER(return unload());
    return cudaSuccess;
  };
  RAISED_BY("cuModuleUnload*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(ModuleLoadedInOtherThread, FixLoadBefore) {
  REMEDY_STAYS("the drivers that were tried refuse no load, so the test holds without it");
  EXPECT_EQ(elsewhere([&] { return load(); }).text, "ok");
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(ModuleLoadedInOtherThread, FixUnloadAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(EXPECT_EQ(elsewhere([&] { return unload(); }).text, "ok"));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(EXPECT_EQ(elsewhere([&] { return unload(); }).text, "ok"));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
