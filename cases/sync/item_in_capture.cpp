// Reading a value back to the host invalidates the capture that it happens in.
//
// item() copies one element to the host and waits for it with cudaStreamSynchronize. A stream that captures executes
// nothing, so there is nothing to wait for: CUDA refuses the wait (900) and invalidates the capture, so that ending it
// returns 901. From 2.3 on the first item() of a process also allocates the pinned element that it copies into, and up
// to 2.10 that allocation is refused first, with the same number: the warm-up leaves the wait as the only call that can
// fail.
//
// Alone:  g++ cases/sync/item_in_capture.cpp $(tools/libtorch --flags) -o item_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "item() during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes =
        {{"FixReadAfterReplay", "Call item() after graph.replay(), outside the capture."},
         {"FixStayOnTheGpu",
          "Keep the value in a CUDA tensor and compute with that tensor in the capture instead of calling item()."}},
};

class ItemInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::kCUDA);
    data.item();
  }
  at::Tensor data;
};

TEST_F(ItemInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

// The premise: what is captured changes the value at the replay and not before.
TEST_F(ItemInCapture, ControlRecordsOnly) {
  graph->capture_begin();
  data.mul_(2);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(data.item<float>(), 3);
  graph->replay();
  EXPECT_EQ(data.item<float>(), 6);
}

TEST_F(ItemInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.item()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

// The pinned element is not there yet, so which call is refused first depends on the release; the answer does not.
TEST_F(ItemInCapture, ReproducesCold) {
  empty_host_cache();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.item()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(ItemInCapture, FixReadAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.item());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(result.item<float>(), 2 * value);
  }
}

TEST_F(ItemInCapture, FixStayOnTheGpu) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.item());
  const at::Tensor final = result * 3;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(final), std::vector<double>{6.0 * value});
  }
}
