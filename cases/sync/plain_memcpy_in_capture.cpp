// A synchronous cudaMemcpy invalidates a capture on a blocking stream, and does no harm beside any other.
//
// Programs call it to fill an array on the host without any tensor operation. It takes no stream: it runs on the legacy
// default stream and returns when the bytes have arrived. CUDA does not object to that wait as such. What counts
// is the capturing stream: the legacy stream implicitly waits for blocking streams, which it cannot do while one of
// them captures, so the copy is refused (906). LibTorch's own streams are non-blocking, and beside their captures it
// runs.
//
// Alone:  g++ cases/sync/plain_memcpy_in_capture.cpp $(tools/libtorch --flags) -o plain_memcpy_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A synchronous cudaMemcpy beside a capture on a blocking stream invalidates it",
    .sources = {{"capture failures", "Why Capture Fails"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "cudaErrorStreamCaptureImplicit(906): cudaMemcpy while a stream with default flags captures",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "raw CUDA calls", "default stream"},
    .features = {"host reads"},
    .fixes = {{"FixCopyAfterReplay",
               "Call cudaMemcpy() after graph.replay(), once the stream of the replay has been synchronized."},
              {"FixNonBlockingStream",
               "Capture on a stream made with cudaStreamNonBlocking, as those of torch.cuda.Stream() are, so that "
               "cudaMemcpy() may run."}},
};

class PlainMemcpyInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_EQ(download(data), 3);
  }

  // A stream of the program's own, made current.
  void use_own_stream(unsigned flags) {
    cudaStream_t own = nullptr;
    ASSERT_CUDA(cudaStreamCreateWithFlags(&own, flags));
    stream = c10::cuda::getStreamFromExternal(own, 0);
    c10::cuda::setCurrentCUDAStream(stream);
  }

  static float download(const at::Tensor& from) {
    float host = 0;
    EXPECT_EQ(cudaMemcpy(&host, from.data_ptr<float>(), sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

  at::Tensor data;
};

TEST_F(PlainMemcpyInCapture, Control) {
  use_own_stream(cudaStreamDefault);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(PlainMemcpyInCapture, Reproduces) {
  use_own_stream(cudaStreamDefault);
  float host = 0;
  graph->capture_begin();
  const at::Tensor result = data * 2;
  Failure first;
  TRIGGER(first = failure_of_code(cudaMemcpy(&host, data.data_ptr<float>(), sizeof host, cudaMemcpyDeviceToHost)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuMemcpyDtoH*");
  REPRODUCES(seen(first, status, end), "906 > invalidated > 901", "ok > active > ok");
}

TEST_F(PlainMemcpyInCapture, FixCopyAfterReplay) {
  use_own_stream(cudaStreamDefault);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(download(data));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    stream.synchronize();
    EXPECT_EQ(download(result), 2.0f * value);
  }
}

TEST_F(PlainMemcpyInCapture, FixNonBlockingStream) {
  unsigned flags = cudaStreamDefault;
  REMEDY(flags = cudaStreamNonBlocking);
  use_own_stream(flags);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_EQ(download(data), 3);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
  }
}
