// Printing a tensor invalidates the capture that it happens in.
//
// The stream operator copies the elements to the host before it formats them, and that copy waits for the GPU. The text
// goes into a string stream, so that nothing but the copy can fail. A first print outside the capture warms the caches.
//
// Alone:  g++ cases/sync/print_in_capture.cpp $(tools/libtorch --flags) -o print_in_capture

#include <sstream>
#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Printing a CUDA tensor during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixPrintAfterReplay", "Print the graph's output after graph.replay(), outside the capture."}},
};

class PrintInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    std::ostringstream() << data;
  }
  at::Tensor data;
};

TEST_F(PrintInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(PrintInCapture, Reproduces) {
  std::ostringstream text;
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(text << result); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PrintInCapture, FixPrintAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(std::ostringstream() << result);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    std::ostringstream text;
    text << result;
    EXPECT_THAT(text.str(), ::testing::HasSubstr(std::to_string(2 * value)));
  }
}
