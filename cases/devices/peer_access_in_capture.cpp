// Enabling peer access between two GPUs in a capture invalidates the capture.
//
// cudaDeviceEnablePeerAccess() takes no stream. Like other settings of a device (device_setting_in_capture), it is
// expected to count as potentially unsafe: a global capture forbids it to every thread, and a thread-local one to its
// own. LibTorch calls it at the first copy between two GPUs, so one copy before the capture avoids it.
//
// Alone:  g++ cases/devices/peer_access_in_capture.cpp $(tools/libtorch --flags) -o peer_access_in_capture

#include <string>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Enabling peer access between two GPUs in a capture invalidates the capture",
    .sources = {{"CUDA runtime API", "Peer Device Memory Access: cudaDeviceEnablePeerAccess"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "not documented call by call; cudaErrorStreamCaptureUnsupported (900) in the modes that forbid it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "threads"},
    .features = {"raw CUDA calls"},
    .needs = "ranks",
    .fixes = {{"FixEnableBefore",
               "Copy between the GPUs, or call cudaDeviceEnablePeerAccess(), once before the capture."},
              {"FixRelaxedMode",
               "Begin the capture with cudaStreamCaptureModeRelaxed, capture_error_mode='relaxed', where a library "
               "enables the access at an unknown place."}},
    .connections = 8,
};

class PeerAccessInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    int count = 0, can_access = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "needs 2 GPUs, has " << count;
    ASSERT_CUDA(cudaDeviceCanAccessPeer(&can_access, 0, 1));
    if (!can_access) GTEST_SKIP() << "no peer access between the first two GPUs";
    ASSERT_CUDA(cudaSetDevice(1));
    ASSERT_CUDA(cudaFree(nullptr));  // Its context.
    ASSERT_CUDA(cudaSetDevice(0));
  }

  // A capture of the copy, with peer access enabled in it or not. Then it is launched twice.
  std::string captured_with_access(cudaStreamCaptureMode mode, bool enable) {
    cudaError_t enabled = cudaSuccess;
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    if (enable) enabled = cudaDeviceEnablePeerAccess(1, 0);
    const std::string status = capture_status(stream);
    const cudaError_t end = cudaStreamEndCapture(stream, &captured);
    (void)cudaGetLastError();
    const std::string all = seen(failure_of_code(enabled), status, failure_of_code(end));
    if (end != cudaSuccess) return all;
    const cudaGraphExec_t exec = instantiated(captured);
    const int first = launch(exec, 5);
    return all + ", " + std::to_string(first) + " " + std::to_string(launch(exec, 7));
  }
};

constexpr char kHealthy[] = "ok > active > ok, 5 7", kBroken[] = "900 > invalidated > 901";

TEST_F(PeerAccessInCapture, Control) { EXPECT_EQ(captured_with_access(cudaStreamCaptureModeGlobal, false), kHealthy); }

TEST_F(PeerAccessInCapture, Reproduces) {
  bool enable = false;
  TRIGGER(enable = true);
  RAISED_BY("cuCtxEnablePeerAccess*");
  REPRODUCES(captured_with_access(cudaStreamCaptureModeGlobal, enable), kBroken, kHealthy);
}

TEST_F(PeerAccessInCapture, ReproducesInThreadLocalMode) {
  bool enable = false;
  TRIGGER(enable = true);
  RAISED_BY("cuCtxEnablePeerAccess*");
  REPRODUCES(captured_with_access(cudaStreamCaptureModeThreadLocal, enable), kBroken, kHealthy);
}

TEST_F(PeerAccessInCapture, FixEnableBefore) {
  bool enable = true;
  REMEDY(ASSERT_CUDA(cudaDeviceEnablePeerAccess(1, 0)); enable = false);
  EXPECT_EQ(captured_with_access(cudaStreamCaptureModeGlobal, enable), kHealthy);
}

TEST_F(PeerAccessInCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(captured_with_access(mode, true), kHealthy);
}
