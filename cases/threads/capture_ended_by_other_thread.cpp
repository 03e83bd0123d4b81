// A capture that one thread began cannot be ended by another.
//
// The current stream belongs to a thread. A thread that only calls capture_end() has the default stream current, and
// LibTorch refuses because the streams differ. If it makes the capturing stream current first, LibTorch accepts that
// and CUDA refuses (908), since a capture that is not relaxed belongs to its thread. In both cases the first thread
// then tries to end its capture itself. After LibTorch's refusal it can; CUDA's refusal has ended the capture, and
// nothing is left to end (401). None of the four documents has this: it is our own addition, from the sources below.
//
// Alone:  g++ cases/threads/capture_ended_by_other_thread.cpp $(tools/libtorch --flags) -o capture_ended_by_other_thread

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture cannot be ended by another thread than the one that began it",
    .sources = {{"PyTorch source", "aten/src/ATen/cuda/CUDAGraph.cpp: capture_end"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureWrongThread"}},
    .documented = "Capture must end on the same stream it began on; with the stream current there, 908",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"threads"},
    .features = {"threads"},
    .fixes = {{"FixRelaxedModeAndCurrentStream",
               "Call capture_begin(capture_error_mode='relaxed'), and make its stream current in the thread that calls "
               "capture_end()."}},
};

class CaptureEndedByOtherThread : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
  }

  Failure end_elsewhere(bool with_stream_current) {
    Failure failure;
    std::thread([&] {
      if (with_stream_current) c10::cuda::setCurrentCUDAStream(stream);
      failure = failure_of([&] { graph->capture_end(); });
    }).join();
    return failure;
  }

  at::Tensor x;
};

// Another thread may replay the graph.
TEST_F(CaptureEndedByOtherThread, Control) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    std::thread([&] {
      const c10::cuda::CUDAStreamGuard guard(stream);
      graph->replay();
    }).join();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}

TEST_F(CaptureEndedByOtherThread, Reproduces) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  Failure first;
  TRIGGER(first = end_elsewhere(false));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end), "check \"Capture must end on the same stream it began on.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(CaptureEndedByOtherThread, ReproducesWithTheStreamCurrent) {
  graph->capture_begin();
  const at::Tensor y = x * 2;
  Failure first;
  TRIGGER(first = end_elsewhere(true));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "908 > none > 401", "ok > active > ok");
}

TEST_F(CaptureEndedByOtherThread, FixRelaxedModeAndCurrentStream) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool with_stream_current = false;
  REMEDY(mode = cudaStreamCaptureModeRelaxed, with_stream_current = true);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  ASSERT_EQ(end_elsewhere(with_stream_current).text, "ok");
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}
