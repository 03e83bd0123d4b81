// Unloading a module on the capturing thread invalidates the capture.
//
// Libraries that compile kernels at run time unload them when the last reference goes away: Warp, and Triton from 3.7
// on. That happens where a reference is dropped or when Python's collector runs, in a capture too. CUDA refuses it
// there, like cudaFree. gc.disable() stops only the collector: kernels that an autotuner rejects go away by reference
// counting. For another thread, see module_loaded_in_other_thread; for a kernel of the graph itself,
// captured_kernel_unloaded.
//
// Alone:  g++ cases/libraries/module_unloaded_in_capture.cpp $(tools/libtorch --flags) -o module_unloaded_in_capture

#include "fixtures/cuda/modules.h"
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
    .features = {"runtime compilation"},
    .fixes = {{"FixUnloadAfterTheCapture",
               "Keep every compiled kernel referenced until the capture has ended, including those that an autotuner "
               "rejects; gc.disable() is not enough."}},
};

class ModuleUnloadedInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    if (const int error = module.load()) GTEST_SKIP() << "the driver cannot compile PTX: error " << error;
    ASSERT_EQ(other.load(), 0);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  CopyModule module, other;
};

TEST_F(ModuleUnloadedInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(module.launch(out, in, stream), 0);
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(other.unload(), 0);
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(ModuleUnloadedInCapture, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(module.launch(out, in, stream), 0);
  TRIGGER(first = failure_of_code(other.unload()));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuModuleUnload*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ModuleUnloadedInCapture, ReproducesInThreadLocalMode) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(module.launch(out, in, stream), 0);
  TRIGGER(first = failure_of_code(other.unload()));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuModuleUnload*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ModuleUnloadedInCapture, FixUnloadAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(module.launch(out, in, stream), 0);
  WITHOUT_REMEDY(other.unload());
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(EXPECT_EQ(other.unload(), 0));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
