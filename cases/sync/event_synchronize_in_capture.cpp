// Waiting for an event on the host invalidates an open capture.
//
// In global mode the wait counts as potentially unsafe even for an event that was recorded before the capture and has
// long completed: 900. An event that is recorded inside the capture stands for a node and never completes, so CUDA
// refuses it with an error of its own, 907; that variant runs in relaxed mode, where the first rule does not apply.
//
// Alone:  g++ cases/sync/event_synchronize_in_capture.cpp $(tools/libtorch --flags) -o event_synchronize_in_capture

#include <memory>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "cudaEventSynchronize during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorCapturedEvent"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "events"},
    .features = {"host reads", "events"},
    .fixes = {{"FixSynchronizeAfterReplay",
               "Record the event after graph.replay() and call event.synchronize() there, outside the capture."}},
};

class EventSynchronizeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    event = std::make_unique<at::cuda::CUDAEvent>();
    event->record(stream);
    event->synchronize();
  }
  at::Tensor data;
  std::unique_ptr<at::cuda::CUDAEvent> event;
};

TEST_F(EventSynchronizeInCapture, Control) {
  event->synchronize();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(EventSynchronizeInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(event->synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventSynchronizeInCapture, ReproducesOnCapturedEvent) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  event->record(stream);
  const Failure first = failure_of([&] { TRIGGER(event->synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen(first, status, end), "907 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventSynchronizeInCapture, FixSynchronizeAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(event->synchronize());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    event->record(stream);
    event->synchronize();
    EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
  }
}
