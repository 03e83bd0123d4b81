// A capture that records nothing succeeds, and only a warning says that its replay will do nothing.
//
// An empty graph is legal. It comes from work that went elsewhere: code that makes another stream current inside a
// capture runs at once and is missing from the graph. LibTorch counts the nodes when the capture ends and warns if
// there are none. The second variant launches real work, on a stream that is not part of the capture. Each variant
// replays the graph on a 5, to which captured work would add 1.
//
// Alone:  g++ cases/streams/nothing_captured.cpp $(tools/libtorch --flags) -o nothing_captured

#include <cmath>

#include "fixtures/torch/gpu.h"
#include "fixtures/torch/warnings.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture that records nothing succeeds with a warning",
    .sources = {{"upstream", "pytorch#88754"}},
    .documented = "The CUDA Graph is empty.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams"},
    .effect = Effect::Warns,
    .fixes =
        {{"FixWorkOnTheCapturingStream",
          "Launch the work on the capturing stream: do not make another stream current inside the captured code."}},
};

constexpr char kWarning[] = "The CUDA Graph is empty";

class NothingCaptured : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    x.add_(0);  // Loads the kernel, which must not happen beside an open capture.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // What a replay makes of a 5, once all is done that was launched before.
  std::string replay() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    x.fill_(5);
    graph->replay();
    return std::to_string(std::lround(values(x)[0]));
  }

  at::Tensor x;
};

TEST_F(NothingCaptured, Control) {
  const Warnings warnings;
  graph->capture_begin();
  x.add_(1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(warnings.count_with(kWarning), 0);
  graph->replay();
  EXPECT_EQ(values(x), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(NothingCaptured, Reproduces) {
  const Warnings warnings;
  graph->capture_begin();
  WITHOUT_TRIGGER(x.add_(1));
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(end.text + " > " + warnings.first_with(kWarning) + " > " + replay(), "ok > The CUDA Graph is empty.* > 5",
             "ok > no warning > 6");
}

TEST_F(NothingCaptured, ReproducesWhenWorkGoesElsewhere) {
  const Warnings warnings;
  const c10::cuda::CUDAStream elsewhere = c10::cuda::getStreamFromPool();
  graph->capture_begin();
  const Failure work = failure_of([&] {
    const c10::cuda::CUDAStreamGuard guard(stream);
    TRIGGER(c10::cuda::setCurrentCUDAStream(elsewhere));
    x.add_(1);
  });
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(work.text + " > " + end.text + " > " + warnings.first_with(kWarning) + " > " + replay(),
             "ok > ok > The CUDA Graph is empty.* > 5", "ok > ok > no warning > 6");
}

TEST_F(NothingCaptured, FixWorkOnTheCapturingStream) {
  const c10::cuda::CUDAStream elsewhere = c10::cuda::getStreamFromPool();
  graph->capture_begin();
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    WITHOUT_REMEDY(c10::cuda::setCurrentCUDAStream(elsewhere));
    x.add_(1);
  }
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(x), std::vector<double>(4, value + 1.0));
  }
}
