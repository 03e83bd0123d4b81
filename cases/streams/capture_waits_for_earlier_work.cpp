// A capture that waits for work launched before it began fails.
//
// The event was recorded on a side stream before capture_begin, so the wait in the capture has no node of the graph to
// depend on (905). The remedies are to wait before the capture begins, or to wait for an external event: then each
// replay waits anew. In the fixes the side stream spins before it writes the input, so a replay that did not wait would
// read the old values.
//
// Alone:  g++ cases/streams/capture_waits_for_earlier_work.cpp $(tools/libtorch --flags) -o capture_waits_for_earlier_work

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture that waits for work launched before it began fails",
    .sources = {{"capture failures", "Quick Reference"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureIsolation"},
                {"upstream", "pytorch#155372"},
                {"upstream", "sglang#29166"}},
    .documented = "No waits for work launched before capture: cudaErrorStreamCaptureIsolation(905)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "events"},
    .features = {"side streams"},
    .fixes = {{"FixWaitBeforeTheCapture",
               "Call stream.wait_event() before the capture begins, and again before each graph.replay() that needs "
               "the other stream's work."},
              {"FixExternalEventOfCuda",
               "In the capture, call cudaStreamWaitEvent() with cudaEventWaitExternal, and record the event before "
               "each replay."},
              {"FixExternalEventOfLibTorch",
               "Wait for a torch.cuda.Event(external=True) in the capture, and record it on the other stream before "
               "each replay."}},
    .connections = 8,
};

constexpr int64_t kSpinCycles = 20'000'000;  // About 10 ms.

class CaptureWaitsForEarlierWork : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    side = c10::cuda::getStreamFromPool();
    x = at::full({4}, 1, at::kCUDA);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void write_slowly(int value) {
    const c10::cuda::CUDAStreamGuard guard(side);
    at::cuda::sleep(kSpinCycles);
    x.fill_(value);
  }

  at::Tensor x;
  c10::cuda::CUDAStream side = stream;
};

TEST_F(CaptureWaitsForEarlierWork, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(CaptureWaitsForEarlierWork, Reproduces) {
  at::cuda::CUDAEvent written;
  write_slowly(3);
  written.record(side);
  graph->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(written.block(stream)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "905 > invalidated > 901", "ok > active > ok");
}

TEST_F(CaptureWaitsForEarlierWork, FixWaitBeforeTheCapture) {
  at::cuda::CUDAEvent written;
  write_slowly(3);
  written.record(side);
  REMEDY(written.block(stream));
  graph->capture_begin();
  WITHOUT_REMEDY(written.block(stream));
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    write_slowly(value);
    written.record(side);
    written.block(stream);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}

TEST_F(CaptureWaitsForEarlierWork, FixExternalEventOfCuda) {
  cudaEvent_t written = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  ASSERT_CUDA(cudaEventRecord(written, side));
  unsigned wait_flags = cudaEventWaitDefault;
  REMEDY(wait_flags = cudaEventWaitExternal);
  graph->capture_begin();
  ASSERT_CUDA(cudaStreamWaitEvent(stream, written, wait_flags));
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    write_slowly(value);
    ASSERT_CUDA(cudaEventRecord(written, side));
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}

TEST_F(CaptureWaitsForEarlierWork, FixExternalEventOfLibTorch) {
#ifdef cudaEventExternal
  unsigned flags = cudaEventDisableTiming;
  REMEDY(flags |= cudaEventExternal);
  at::cuda::CUDAEvent written(flags);
  written.record(side);
  graph->capture_begin();
  written.block(stream);
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    write_slowly(value);
    written.record(side);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
#else
  NOT_APPLICABLE("this release has no external events");
#endif
}
