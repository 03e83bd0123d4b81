// A second capture cannot begin on a stream that already captures.
//
// Library code that captures for itself meets this when its caller captures too. A stream has one capture at a time:
// CUDA refuses the second begin as an illegal state (401). LibTorch prepares the random number generator before it
// calls CUDA, and that already fails, with a message of LibTorch's own. Releases in which the generator keeps its state
// for each capture get as far as CUDA's 401. Either way the first capture goes on unharmed. Where the generator
// refused, the second graph cannot be destroyed: its destructor unregisters it from a generator that never had it,
// throws, and so ends the process. What happens on two streams is in capture_inside_capture.
//
// Alone:  g++ cases/streams/second_capture_on_capturing_stream.cpp $(tools/libtorch --flags) -o second_capture_on_capturing_stream

#include "fixtures/cuda/runtime.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A second capture cannot begin on a stream that already captures",
    .sources = {{"CUDA runtime API", "Stream Management: cudaStreamBeginCapture"},
                {"upstream", "pytorch#114068"},
                {"upstream", "pytorch#176752"}},
    .documented = "401 cudaErrorIllegalState, or LibTorch's own: Cannot register the state during capturing stage",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "several graphs", "generators"},
    .features = {"several graphs"},
    .fixes = {{"FixOneCaptureAfterTheOther",
               "Call capture_end() on the first graph before you call capture_begin() on the second."}},
};

using SecondCaptureOnCapturingStream = RuntimeTest;

TEST_F(SecondCaptureOnCapturingStream, Control) {
  const at::Tensor x = at::full({1}, 3, at::kCUDA);
  const auto second = make_graph();
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  second->capture_begin();
  const at::Tensor z = y + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  second->capture_end();
  graph->replay();
  second->replay();
  EXPECT_EQ(values(z), std::vector<double>{7});
}

TEST_F(SecondCaptureOnCapturingStream, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  TRIGGER(first = failure_of_code(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of_code(cudaStreamEndCapture(stream, &captured));
  REPRODUCES(seen(first, status, end), "401 > active > ok", "ok > active > ok");
}

TEST_F(SecondCaptureOnCapturingStream, ReproducesThroughLibTorch) {
  const at::Tensor x = at::full({1}, 3, at::kCUDA);
  Graph* const second = make_graph().release();  // Never destroyed: see above.
  graph->capture_begin();
  const at::Tensor y = x * 2;
  const Failure first = failure_of([&] { TRIGGER(second->capture_begin()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "check \"Cannot register the state during capturing stage.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(SecondCaptureOnCapturingStream, FixOneCaptureAfterTheOther) {
  const at::Tensor x = at::full({1}, 3, at::kCUDA);
  Graph* const second = make_graph().release();  // Without the remedy it is refused, and must not be destroyed.
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  REMEDY(graph->capture_end());
  second->capture_begin();
  const at::Tensor z = y + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  second->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    second->replay();
    EXPECT_EQ(values(z), std::vector<double>{2.0 * value + 1});
  }
}
