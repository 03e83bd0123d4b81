// cudaMemcpyBatchAsync is refused in a capture (900), the capture goes on, and the copy is missing from the graph.
//
// Most refused calls invalidate the capture, so that nobody can overlook them. This one does not, in any mode: the end
// succeeds, the graph can be instantiated and launched, and the copy never happens. A program that does not check what
// the copy returns has wrong results without an error; one that does has an error 900 beside a capture that is still
// valid. The copies of a library went this way when it replaced cudaMemcpyAsync: 19 jobs failed, and the errors pointed
// to allocations. Our replays show the silent kind: the byte that is written before the copy stays.
//
// Alone:  g++ cases/memory/copy_refused_in_capture.cpp $(tools/libtorch --flags) -o copy_refused_in_capture

#include "fixtures/cuda/by_mode.h"
#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "cudaMemcpyBatchAsync fails in a capture without invalidating it, so the graph lacks the copy",
    .sources = {{"upstream", "rmm#2518"}, {"upstream", "cuopt#1748"}},
    .documented =
        "cudaErrorStreamCaptureUnsupported (900); does not invalidate the capture; the copy simply never happens",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "extensions"},
    .features = {"raw CUDA calls"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"Reproduces", Effect::Raises}, {"ReproducesInEachMode", Effect::Raises}},
    .fixes = {{"FixPlainCopy", "Call cudaMemcpyAsync() instead of cudaMemcpyBatchAsync() in the captured region."},
              {"FixCopyOutsideTheCapture",
               "Call cudaMemcpyBatchAsync() before each cudaGraphLaunch(), outside the captured region."}},
};

class CopyRefusedInCapture : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&staged, 1));
#if CUDART_VERSION < 12080
    NOT_APPLICABLE("this CUDA runtime has no cudaMemcpyBatchAsync");
#endif
    const cudaError_t error = batch_copy(staged, in, stream);
    if (error == cudaErrorCallRequiresNewerDriver) NOT_APPLICABLE("this driver has no cuMemcpyBatchAsync");
    ASSERT_CUDA(error);
    ASSERT_CUDA(cudaStreamSynchronize(stream));
  }

  // A batch of one copy of a byte. CUDA 13 dropped a parameter; before 12.8 there was none.
  static cudaError_t batch_copy(void* to, const void* from, cudaStream_t on) {
#if CUDART_VERSION >= 12080
    size_t size = 1, first = 0;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, on);
#else
    size_t failed = 0;
    void* source = const_cast<void*>(from);
    return cudaMemcpyBatchAsync(&to, &source, &size, 1, &attributes, &first, 1, &failed, on);
#endif
#else
    (void)to, (void)from, (void)on;
    return cudaErrorNotSupported;
#endif
  }

  void* staged = nullptr;
};

TEST_F(CopyRefusedInCapture, Control) {
  ASSERT_CUDA(batch_copy(staged, in, stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
}

TEST_F(CopyRefusedInCapture, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  TRIGGER(first = failure_of_code(batch_copy(out, in, stream)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  RAISED_BY("cuMemcpyBatchAsync*");
  REPRODUCES(seen(first, status, end), "900 > active > ok", "ok > active > ok");
}

TEST_F(CopyRefusedInCapture, ReproducesInEachMode) {
  const auto call = [&](const Beside& its) {
    TRIGGER(return batch_copy(out, in, its.capturing));
    return cudaSuccess;
  };
  RAISED_BY("cuMemcpyBatchAsync*");
  REPRODUCES(by_mode(call), everywhere("900>ok"), kAllowed);
}

// As a program has it that does not check what the copy returns.
TEST_F(CopyRefusedInCapture, ReproducesMissingCopy) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  TRIGGER((void)batch_copy(out, in, stream));
  WITHOUT_TRIGGER(ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream)));
  const int nodes = captured_nodes(stream);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  const std::string left = std::to_string(launch(exec, 5)) + ", " + std::to_string(launch(exec, 7));
  RAISED_BY("cuMemcpyBatchAsync*");
  REPRODUCES(std::to_string(nodes) + " nodes: " + left, "1 nodes: 1, 1", "2 nodes: 5, 7");
}

TEST_F(CopyRefusedInCapture, FixPlainCopy) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemsetAsync(out, 1, 1, stream));
  WITHOUT_REMEDY((void)batch_copy(out, in, stream));
  REMEDY(ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream)));
  EXPECT_EQ(captured_nodes(stream), 2);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}

TEST_F(CopyRefusedInCapture, FixCopyOutsideTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY((void)batch_copy(staged, in, stream));
  ASSERT_CUDA(cudaMemcpyAsync(out, staged, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) {
    unsigned char left = 0;
    ASSERT_CUDA(cudaMemsetAsync(in, value, 1, stream));
    REMEDY(ASSERT_CUDA(batch_copy(staged, in, stream)));
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    ASSERT_CUDA(cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream));
    ASSERT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(left, value);
  }
}
