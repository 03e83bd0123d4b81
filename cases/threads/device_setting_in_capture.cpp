// Changing a setting of the device, starting a profiler, or cudaFree(0) invalidates a capture that it has nothing to do
// with.
//
// cudaDeviceSetLimit, cudaDeviceSetCacheConfig, cudaProfilerStart and cudaFree(nullptr), with which many programs
// initialise CUDA, name no stream and no memory. They count as potentially unsafe nevertheless: a global capture
// forbids them to every thread, a thread-local one to its own, a relaxed one to nobody. How each call ends in each mode
// is one line. No document lists them; cuBLAS, which calls cudaFree(nullptr) as it makes a handle, is in
// first_matmul_in_capture.
//
// Alone:  g++ cases/threads/device_setting_in_capture.cpp $(tools/libtorch --flags) -o device_setting_in_capture

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A device limit, a cache setting, a profiler's start or cudaFree(0) invalidates a capture",
    .sources = {{"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "not documented call by call; cudaErrorStreamCaptureUnsupported (900) in the modes that forbid it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "raw CUDA calls"},
    .fixes = {{"FixSetBeforeTheCapture",
               "Call cudaDeviceSetLimit(), cudaProfilerStart() and the like before the capture begins."},
              {"FixInitializeBeforeTheCapture",
               "Initialise CUDA, and each library on it, with a first call before the capture begins."},
              {"FixRelaxedMode",
               "Begin the capture with cudaStreamCaptureModeRelaxed if a setting must be changed meanwhile."}},
};

// cuda_profiler_api.h is in a package of its own, which LibTorch does not bring.
extern "C" cudaError_t CUDARTAPI cudaProfilerStart();

using DeviceSettingInCapture = RuntimeTest;

TEST_F(DeviceSettingInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  ASSERT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  ASSERT_CUDA(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
  ASSERT_CUDA(cudaProfilerStart());
  ASSERT_CUDA(cudaFree(nullptr));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(DeviceSettingInCapture, ControlNoCall) {
  EXPECT_EQ(by_mode([](const Beside&) { return cudaSuccess; }), kAllowed);
}

TEST_F(DeviceSettingInCapture, ReproducesLimit) {
  const auto call = [](const Beside&) {
    TRIGGER(return cudaDeviceSetLimit(cudaLimitStackSize, 2048));
    return cudaSuccess;
  };
  RAISED_BY("cuCtxSetLimit*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(DeviceSettingInCapture, ReproducesCacheConfig) {
  const auto call = [](const Beside&) {
    TRIGGER(return cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
    return cudaSuccess;
  };
  RAISED_BY("cuCtxSetCacheConfig*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(DeviceSettingInCapture, ReproducesProfilerStart) {
  const auto call = [](const Beside&) {
    TRIGGER(return cudaProfilerStart());
    return cudaSuccess;
  };
  RAISED_BY("cuProfilerStart*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(DeviceSettingInCapture, ReproducesFreeOfNothing) {
  const auto call = [](const Beside&) {
    TRIGGER(return cudaFree(nullptr));
    return cudaSuccess;
  };
  RAISED_BY("cuMemFree*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(DeviceSettingInCapture, FixSetBeforeTheCapture) {
  REMEDY(ASSERT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048)));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048)));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(DeviceSettingInCapture, FixInitializeBeforeTheCapture) {
  REMEDY(ASSERT_CUDA(cudaFree(nullptr)));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaFree(nullptr)));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(DeviceSettingInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  ASSERT_CUDA(cudaFree(nullptr));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
