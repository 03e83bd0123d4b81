// A capture can only be ended while the stream that it began on is current.
//
// capture_end ends the capture of the current stream, and a stream guard or a forgotten setCurrentCUDAStream in the
// captured code changes which stream that is. LibTorch compares the two and refuses before it calls CUDA, so nothing is
// lost: the capture goes on and can still be ended on its own stream, as the fix does after the failure.
//
// Alone:  g++ cases/streams/capture_end_on_other_stream.cpp $(tools/libtorch --flags) -o capture_end_on_other_stream

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture cannot be ended while a stream other than its own is current",
    .sources = {{"PyTorch source", "aten/src/ATen/cuda/CUDAGraph.cpp: capture_end"},
                {"CUDA runtime API", "Stream Management: cudaStreamBeginCapture"}},
    .documented = "Capture must end on the same stream it began on.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams"},
    .features = {"side streams"},
    .fixes =
        {{"FixEndOnItsOwnStream",
          "Make the stream of capture_begin() current again with torch.cuda.set_stream(), then call capture_end()."}},
};

class CaptureEndOnOtherStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    side = c10::cuda::getStreamFromPool();
  }
  at::Tensor x;
  c10::cuda::CUDAStream side = stream;
};

TEST_F(CaptureEndOnOtherStream, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(CaptureEndOnOtherStream, Reproduces) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  TRIGGER(c10::cuda::setCurrentCUDAStream(side));
  const Failure end = failure_of([&] { graph->capture_end(); });
  const std::string status = capture_status(stream);
  REPRODUCES(end.text + " > " + status, "check \"Capture must end on the same stream it began on.*\" > active",
             "ok > none");
}

TEST_F(CaptureEndOnOtherStream, FixEndOnItsOwnStream) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  c10::cuda::setCurrentCUDAStream(side);
  EXPECT_ANY_THROW(graph->capture_end());
  REMEDY(c10::cuda::setCurrentCUDAStream(stream));
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}
