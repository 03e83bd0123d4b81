// A capture that is begun and ended inside another one breaks the outer capture, or spoils its random numbers.
//
// Code that captures for itself meets this when its caller captures too, each on a stream of its own; on one stream the
// second begin is refused (second_capture_on_capturing_stream). The inner capture_end() instantiates the inner graph,
// and the outer capture, which is still open, forbids that call to its thread: 900, and the outer capture is
// invalidated. Under an outer capture in relaxed mode both ends succeed, and the damage is silent. The default
// generator counts what a graph draws from zero at each capture_begin(), the inner one included. So what the outer
// capture drew before is forgotten, its replays do not move the generator on, and each draws the same numbers. Since
// the generator keeps its state for each capture, it does not happen any more; what is drawn after the inner capture is
// another matter (random_numbers_in_concurrent_captures).
//
// No document has this: it was found by reading capture_begin() and capture_end(). A further probe records what the
// inner graph is good for afterwards, which differs between releases.
//
// Alone:  g++ cases/streams/capture_inside_capture.cpp $(tools/libtorch --flags) -o capture_inside_capture

#include "fixtures/cuda/probes.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "A capture begun and ended inside another breaks the outer one, or its replays repeat their random numbers",
    .sources = {{"PyTorch source", "aten/src/ATen/cuda/CUDAGraph.cpp: capture_end"},
                {"PyTorch source", "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: capture_prologue"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"upstream", "pytorch#176752"}},
    .documented = "not documented: the inner capture_end() raises 900, or the outer graph repeats its random numbers",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "several graphs", "generators"},
    .features = {"side streams", "several graphs"},
    .effects = {{"ReproducesRepeatedRandomNumbers", Effect::SilentlyWrong}},
    .fixes = {{"FixOneCaptureAfterTheOther",
               "Call capture_end() on the outer graph before you call capture_begin() on the inner one."},
              {"FixRelaxedMode",
               "Begin the outer capture with capture_error_mode='relaxed', provided that it draws no random numbers."}},
};

class CaptureInsideCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    inner = make_graph();
    x = at::zeros({8}, at::kCUDA);
    x.uniform_();
    side = c10::cuda::getStreamFromPool();
    const c10::cuda::CUDAStreamGuard guard(side);
    z = at::ones({8}, at::kCUDA);  // Also leaves the allocator a small segment for this stream.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void TearDown() override {
    if (probes_wanted()) {
      run_probes({{"inner", [&] { return replay_inner(3) == doubled(3) ? "ok" : "wrong value"; }}});
    }
    GpuTest::TearDown();
  }

  void capture_inner(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    const c10::cuda::CUDAStreamGuard guard(side);
    inner->capture_begin({0, 0}, mode);
    z.mul_(2);
    inner->capture_end();
  }

  std::vector<double> replay_inner(int value) {
    const c10::cuda::CUDAStreamGuard guard(side);
    z.fill_(value);
    inner->replay();
    return values(z);
  }

  static std::vector<double> doubled(int value) { return std::vector<double>(8, 2.0 * value); }

  // Of what the outer graph draws into x.
  std::string two_replays() {
    graph->replay();
    const std::vector<double> first = values(x);
    graph->replay();
    return values(x) == first ? "same numbers" : "new numbers";
  }

  std::unique_ptr<Graph> inner;
  at::Tensor x, z;
  c10::cuda::CUDAStream side = stream;
};

TEST_F(CaptureInsideCapture, Control) {
  graph->capture_begin();
  x.uniform_();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(two_replays(), "new numbers");
}

TEST_F(CaptureInsideCapture, Reproduces) {
  Failure first;
  graph->capture_begin();
  x.uniform_();
  TRIGGER(first = failure_of([&] { capture_inner(); }));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuGraphInstantiate*");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(CaptureInsideCapture, ReproducesRepeatedRandomNumbers) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  x.uniform_();
  TRIGGER(capture_inner(cudaStreamCaptureModeRelaxed));
  graph->capture_end();
  REPRODUCES(two_replays(), "same numbers", "new numbers");
}

TEST_F(CaptureInsideCapture, FixOneCaptureAfterTheOther) {
  graph->capture_begin();
  x.uniform_();
  EXPECT_GT(captured_nodes(stream), 0);
  WITHOUT_REMEDY(capture_inner());
  graph->capture_end();
  REMEDY(capture_inner());
  EXPECT_EQ(two_replays(), "new numbers");
  for (const int value : {5, 7}) EXPECT_EQ(replay_inner(value), doubled(value));
}

TEST_F(CaptureInsideCapture, FixRelaxedMode) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  graph->capture_begin({0, 0}, mode);
  const at::Tensor y = x * 2;
  capture_inner();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), doubled(value));
    EXPECT_EQ(replay_inner(value + 1), doubled(value + 1));
  }
}
