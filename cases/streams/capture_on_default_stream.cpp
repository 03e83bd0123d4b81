// A capture cannot begin on the default stream.
//
// The default stream synchronizes with other streams implicitly, which a recorded sequence of work cannot express.
// LibTorch compares the streams before it calls CUDA, and its error says so in words; CUDA itself refuses with 900. A
// program meets this when it captures without making another stream current first. Replaying on the default stream is
// allowed, and the fix does so.
//
// Alone:  g++ cases/streams/capture_on_default_stream.cpp $(tools/libtorch --flags) -o capture_on_default_stream

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture cannot begin on the default stream",
    .sources = {{"capture failures", "Why Capture Fails"},
                {"PyTorch documentation", "CUDA semantics: Constraints"},
                {"CUDA runtime API", "Stream Management: cudaStreamBeginCapture"}},
    .documented = "CUDA graphs must be captured on a non-default stream.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "default stream"},
    .features = {"side streams"},
    .fixes = {{"FixReplayOnTheDefaultStream",
               "Capture on a torch.cuda.Stream(), and call graph.replay() on the default stream if you need the work "
               "there."}},
};

class CaptureOnDefaultStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  at::Tensor x;
};

TEST_F(CaptureOnDefaultStream, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(CaptureOnDefaultStream, Reproduces) {
  TRIGGER(c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream()));
  const Failure begin = failure_of([&] { graph->capture_begin(); });
  const std::string status = capture_status(c10::cuda::getCurrentCUDAStream());
  REPRODUCES(begin.text + " > " + status, "check \"CUDA graphs must be captured on a non-default stream.*\" > none",
             "ok > active");
}

TEST_F(CaptureOnDefaultStream, ReproducesInTheRuntime) {
  cudaStream_t chosen = stream;
  TRIGGER(chosen = cudaStreamLegacy);
  const Failure begin = failure_of_code(cudaStreamBeginCapture(chosen, cudaStreamCaptureModeGlobal));
  RAISED_BY("cuStreamBeginCapture*");
  REPRODUCES(begin.text, "900", "ok");
}

TEST_F(CaptureOnDefaultStream, FixReplayOnTheDefaultStream) {
  WITHOUT_REMEDY(c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream()));
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}
