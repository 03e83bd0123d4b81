// Trimming a memory pool, or attaching managed memory to the capturing stream, invalidates the capture.
//
// cudaMemPoolTrimTo gives memory back to the system. That is unsafe while a capture is open, although it touches no
// stream: a global capture forbids it to every thread, a thread-local one to its own, a relaxed one to nobody.
// cudaStreamAttachMemAsync is work on the stream that no node stands for, so it is refused in every mode. How each call
// ends in each mode is one line. No document has either.
//
// Alone:  g++ cases/memory/raw_pool_call_in_capture.cpp $(tools/libtorch --flags) -o raw_pool_call_in_capture

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Trimming a memory pool or attaching managed memory invalidates a capture",
    .sources = {{"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"CUDA runtime API", "Stream Management: cudaStreamAttachMemAsync"},
                {"CUDA runtime API", "Stream Ordered Memory Allocator: cudaMemPoolTrimTo"}},
    .documented = "not documented; cudaErrorStreamCaptureUnsupported (900) in the modes that forbid it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "memory pools"},
    .features = {"raw CUDA calls"},
    .fixes = {{"FixTrimAfterTheCapture", "Call cudaMemPoolTrimTo() before the capture begins or after it has ended."},
              {"FixTrimInRelaxedMode",
               "Begin the capture with cudaStreamCaptureModeRelaxed if a pool may be trimmed meanwhile."},
              {"FixAttachBeforeTheCapture",
               "Call cudaStreamAttachMemAsync() before the capture begins, and wait for it."}},
};

class RawPoolCallInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    ASSERT_CUDA(cudaMallocManaged(&managed, 1));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  cudaMemPool_t pool = nullptr;
  void* managed = nullptr;
};

TEST_F(RawPoolCallInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  ASSERT_CUDA(cudaMemPoolTrimTo(pool, 0));
  ASSERT_CUDA(cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(RawPoolCallInCapture, ReproducesTrim) {
  const auto call = [&](const Beside&) {
    TRIGGER(return cudaMemPoolTrimTo(pool, 0));
    return cudaSuccess;
  };
  RAISED_BY("cuMemPoolTrimTo*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(RawPoolCallInCapture, ReproducesAttach) {
  const auto call = [&](const Beside& its) {
    TRIGGER(return cudaStreamAttachMemAsync(its.capturing, managed, 0, cudaMemAttachSingle));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamAttachMemAsync*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(RawPoolCallInCapture, FixTrimAfterTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaMemPoolTrimTo(pool, 0)));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  REMEDY(ASSERT_CUDA(cudaMemPoolTrimTo(pool, 0)));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(RawPoolCallInCapture, FixTrimInRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, mode));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(RawPoolCallInCapture, FixAttachBeforeTheCapture) {
  const auto attach = [&] { return cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle); };
  REMEDY(ASSERT_CUDA(attach()); ASSERT_CUDA(cudaStreamSynchronize(stream)));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY(ASSERT_CUDA(attach()));
  ASSERT_CUDA(cudaMemcpyAsync(managed, in, 1, cudaMemcpyDefault, stream));
  ASSERT_CUDA(cudaMemcpyAsync(out, managed, 1, cudaMemcpyDefault, stream));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
