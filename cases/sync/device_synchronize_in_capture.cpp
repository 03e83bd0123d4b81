// Waiting for the whole device invalidates every capture that is open on it.
//
// Waiting for the device means waiting for all of its streams, the capturing one included, whose work is only recorded.
// No capture mode helps, and it does not matter which thread waits.
//
// Alone:  g++ cases/sync/device_synchronize_in_capture.cpp $(tools/libtorch --flags) -o device_synchronize_in_capture

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "cudaDeviceSynchronize during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "threads"},
    .features = {"host reads"},
    .fixes =
        {{"FixSynchronizeAfterReplay",
          "Call torch.cuda.synchronize() after graph.replay(), and let no thread call it while a capture is open."}},
};

class DeviceSynchronizeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
  }
  at::Tensor data;
};

TEST_F(DeviceSynchronizeInCapture, Control) {
  c10::cuda::device_synchronize();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  c10::cuda::device_synchronize();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(DeviceSynchronizeInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(c10::cuda::device_synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(DeviceSynchronizeInCapture, ReproducesInRelaxedMode) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(c10::cuda::device_synchronize()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(DeviceSynchronizeInCapture, ReproducesFromOtherThread) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor result = data * 2;
  Failure first;
  std::thread([&] { first = failure_of([&] { TRIGGER(c10::cuda::device_synchronize()); }); }).join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(DeviceSynchronizeInCapture, FixSynchronizeAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(c10::cuda::device_synchronize());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    c10::cuda::device_synchronize();
    EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
  }
}
