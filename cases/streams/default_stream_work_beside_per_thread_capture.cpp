// The per-thread default stream may capture, but any work on the legacy default stream breaks that capture.
//
// CUDA's per-thread default stream is a blocking stream like any other: CUDA lets it capture, and so does LibTorch, to
// which only the legacy stream is the default one; in 2.12 and 2.13 capture_begin() itself fails on it (906). The
// legacy stream still waits for it implicitly. Work on the legacy stream during the capture would have to wait for the
// capture and is refused (906).
//
// Alone:  g++ cases/streams/default_stream_work_beside_per_thread_capture.cpp $(tools/libtorch --flags) -o default_stream_work_beside_per_thread_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Work on the legacy stream breaks a capture on the per-thread default stream",
    .sources = {{"capture failures", "Why Capture Fails"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented =
        "906 cudaErrorStreamCaptureImplicit: disallowed implicit dependency on a capture from the legacy stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "default stream"},
    .features = {"default stream"},
    .fixes = {{"FixCaptureOnPoolStream",
               "Capture on a stream from c10::cuda::getStreamFromPool() or torch.cuda.Stream() instead of "
               "cudaStreamPerThread."}},
};

class DefaultStreamWorkBesidePerThreadCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    unrelated = at::full({4}, 1, at::kCUDA);
    unrelated.add_(0);  // Loads the kernel, which must not happen beside an open capture.
    ASSERT_CUDA(cudaDeviceSynchronize());
    stream = c10::cuda::getStreamFromExternal(cudaStreamPerThread, 0);
    c10::cuda::setCurrentCUDAStream(stream);
  }

  void work_on_legacy_stream() {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getDefaultCUDAStream());
    unrelated.add_(1);
  }

  at::Tensor x, unrelated;
};

TEST_F(DefaultStreamWorkBesidePerThreadCapture, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  work_on_legacy_stream();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(values(unrelated), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(DefaultStreamWorkBesidePerThreadCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  const Failure first = failure_of([&] { TRIGGER(work_on_legacy_stream()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuLaunchKernel*");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(DefaultStreamWorkBesidePerThreadCapture, FixCaptureOnPoolStream) {
  REMEDY(stream = c10::cuda::getStreamFromPool(); c10::cuda::setCurrentCUDAStream(stream));
  graph->capture_begin();
  const at::Tensor y = x * 2;
  work_on_legacy_stream();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
  EXPECT_EQ(values(unrelated), (std::vector<double>{2, 2, 2, 2}));
}
