// Any work on the default stream breaks a capture on a blocking stream.
//
// LibTorch's own streams are non-blocking, and work on the default stream does not disturb their captures. A stream
// that a program makes itself with cudaStreamCreate is blocking: the default stream waits for it implicitly. While it
// captures, that wait is impossible, so CUDA refuses the work on the default stream (906), although that work has
// nothing to do with the capture.
//
// Alone:  g++ cases/streams/default_stream_work_beside_blocking_capture.cpp $(tools/libtorch --flags) -o default_stream_work_beside_blocking_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Work on the default stream breaks a capture on a blocking stream",
    .sources = {{"capture failures", "Why Capture Fails"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "cudaErrorStreamCaptureImplicit(906): the default stream's implicit synchronization",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "default stream", "raw CUDA calls"},
    .features = {"default stream"},
    .fixes = {{"FixNonBlockingStream",
               "Create your own stream with cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) before you "
               "capture on it."}},
};

class DefaultStreamWorkBesideBlockingCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    unrelated = at::full({4}, 1, at::kCUDA);
    unrelated.add_(0);  // Loads the kernel, which must not happen beside an open capture.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // A stream of the program's own, made current.
  void use_own_stream(unsigned flags) {
    cudaStream_t own = nullptr;
    ASSERT_CUDA(cudaStreamCreateWithFlags(&own, flags));
    stream = c10::cuda::getStreamFromExternal(own, 0);
    c10::cuda::setCurrentCUDAStream(stream);
  }

  void work_on_default_stream() {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getDefaultCUDAStream());
    unrelated.add_(1);
  }

  at::Tensor x, unrelated;
};

TEST_F(DefaultStreamWorkBesideBlockingCapture, Control) {
  use_own_stream(cudaStreamDefault);
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  work_on_default_stream();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(values(unrelated), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(DefaultStreamWorkBesideBlockingCapture, Reproduces) {
  use_own_stream(cudaStreamDefault);
  graph->capture_begin();
  const at::Tensor y = x * 2;
  const Failure first = failure_of([&] { TRIGGER(work_on_default_stream()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuLaunchKernel*");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(DefaultStreamWorkBesideBlockingCapture, FixNonBlockingStream) {
  unsigned flags = cudaStreamDefault;
  REMEDY(flags = cudaStreamNonBlocking);
  use_own_stream(flags);
  graph->capture_begin();
  const at::Tensor y = x * 2;
  work_on_default_stream();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
  EXPECT_EQ(values(unrelated), (std::vector<double>{2, 2, 2, 2}));
}
