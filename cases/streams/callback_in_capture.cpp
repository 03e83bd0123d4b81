// cudaStreamAddCallback on a capturing stream, or merely asking for its id or device, invalidates the capture.
//
// A callback of the old kind has no place in a graph, so CUDA refuses it in every capture mode; cudaLaunchHostFunc, its
// successor, becomes a host node. Few expect the same of cudaStreamGetId and cudaStreamGetDevice, which only read what
// the stream is: they are refused too, and a logger or a profiler that asks for them invalidates a capture that it
// merely watches. No document says so: the two were found by trying. How each call ends in each mode is one line.
//
// Alone:  g++ cases/streams/callback_in_capture.cpp $(tools/libtorch --flags) -o callback_in_capture

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A stream callback, or a question for the stream's id or device, invalidates the capture in every mode",
    .sources = {{"CUDA runtime API", "Stream Management: cudaStreamAddCallback"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported; of cudaStreamGetId and cudaStreamGetDevice not documented",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "raw CUDA calls", "extensions"},
    .features = {"side streams"},
    .fixes = {{"FixLaunchHostFunction",
               "Call cudaLaunchHostFunc() instead of cudaStreamAddCallback(): it becomes a host node of the graph."},
              {"FixAskBeforeTheCapture",
               "Call cudaStreamGetId() and cudaStreamGetDevice() before the capture begins, and keep what they say."}},
};

class CallbackInCapture : public RuntimeTest {
 protected:
  static void CUDART_CB count(void* calls) { ++*static_cast<int*>(calls); }
  static void CUDART_CB count_with_status(cudaStream_t, cudaError_t, void* calls) { count(calls); }

  int calls = 0;
};

TEST_F(CallbackInCapture, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  ASSERT_CUDA(cudaStreamAddCallback(stream, count_with_status, &calls, 0));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
  EXPECT_EQ(calls, 1);
}

// What CUDA does answer about a capturing stream.
TEST_F(CallbackInCapture, ControlIsCapturing) {
  const auto call = [](const Beside& its) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(its.capturing, &status);
  };
  EXPECT_EQ(by_mode(call), kAllowed);
}

TEST_F(CallbackInCapture, ReproducesCallback) {
  const auto call = [](const Beside& its) {
    static int unused = 0;
    TRIGGER(return cudaStreamAddCallback(its.capturing, count_with_status, &unused, 0));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamAddCallback*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(CallbackInCapture, ReproducesId) {
  const auto call = [](const Beside& its) {
    unsigned long long id = 0;
    TRIGGER(return cudaStreamGetId(its.capturing, &id));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamGetId*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(CallbackInCapture, ReproducesDevice) {
#if CUDART_VERSION >= 12080
  const auto call = [](const Beside& its) {
    int device = 0;
    TRIGGER(return cudaStreamGetDevice(its.capturing, &device));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamGet*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
#else
  NOT_APPLICABLE("this CUDA runtime has no cudaStreamGetDevice");
#endif
}

TEST_F(CallbackInCapture, FixLaunchHostFunction) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamAddCallback(stream, count_with_status, &calls, 0)));
  REMEDY(ASSERT_CUDA(cudaLaunchHostFunc(stream, count, &calls)));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
  EXPECT_EQ(calls, 2);
}

TEST_F(CallbackInCapture, FixAskBeforeTheCapture) {
  unsigned long long id = 0, id_later = 0;
  REMEDY(ASSERT_CUDA(cudaStreamGetId(stream, &id)));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamGetId(stream, &id)));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
  ASSERT_CUDA(cudaStreamGetId(stream, &id_later));
  EXPECT_EQ(id, id_later);
}
