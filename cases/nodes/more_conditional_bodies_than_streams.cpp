// A graph with 32 conditional bodies cannot be captured: one of them gets the stream of the capture.
//
// LibTorch captures the body of a conditional node on a stream from its pool, which hands out 32 streams in turn, also
// one that captures. torch.cuda.graph() took its own stream from the same pool. So one of 32 bodies in a row gets the
// stream of the capture around it, and CUDA refuses to begin a second capture there (401). torch.cond takes two bodies,
// and a compiled function captures each twice, for the warm-up and for the graph: it can fail from eight torch.cond on.
// The turn goes on from graph to graph, so that a single body of a later graph can be the one. From 2.13 on each body
// has a stream of its own.
//
// Alone:  g++ cases/nodes/more_conditional_bodies_than_streams.cpp $(tools/libtorch --flags) -o more_conditional_bodies_than_streams

#include <string>

#include "fixtures/torch/conditional.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture with many conditional nodes or torch.cond is refused: one body gets the stream that captures",
    .sources = {{"upstream", "pytorch#187893"}, {"upstream", "pytorch#185836"}},
    .documented = "cudaErrorIllegalState with more than 16 torch.cond operations in a single graph",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"conditional nodes", "torch.compile"},
    .features = {"conditional nodes"},
    .fixes = {{"FixCaptureOnHighPriorityStream",
               "Capture on a stream of high priority, whose pool is another one than that of the bodies: "
               "torch.cuda.Stream(priority=-1)."},
              {"FixChooseByWhere",
               "Where both branches may run, compute both and choose by torch.where(), which needs no conditional "
               "node."}},
};

constexpr int kStreamsInPool = 32;

class MoreConditionalBodiesThanStreams : public ConditionalTest {
 protected:
  void SetUp() override {
    ConditionalTest::SetUp();
    if (IsSkipped()) return;
    sum = at::zeros({4}, at::kCUDA);
    sum.add_(at::where(condition, 1, 0));
    sum.zero_();
    stream.synchronize();
  }

  // Adds one to the sum so many times, if the condition is true: each in a body of its own, or without one.
  std::string capture(int additions, bool has_bodies = true) {
    graph->capture_begin();
    const Failure first = failure_of([&] {
      for (int i = 0; i < additions; ++i) {
        if (has_bodies) {
          captured_if(condition, [&] { sum.add_(1); });
        } else {
          sum.add_(at::where(condition, 1, 0));
        }
      }
    });
    const std::string status = capture_status(c10::cuda::getCurrentCUDAStream());
    const Failure end = failure_of([&] { graph->capture_end(); });
    return first ? first.text : seen(first, status, end);
  }

  void check_replays(int additions) {
    for (const bool is_true : {true, false}) {
      condition.fill_(is_true);
      sum.zero_();
      graph->replay();
      graph->replay();
      EXPECT_EQ(values(sum), std::vector<double>(4, is_true ? 2 * additions : 0));
    }
  }

  at::Tensor sum;
};

constexpr char kHealthy[] = "ok > active > ok";

TEST_F(MoreConditionalBodiesThanStreams, Control) {
  ASSERT_EQ(capture(kStreamsInPool / 2), kHealthy);
  check_replays(kStreamsInPool / 2);
}

TEST_F(MoreConditionalBodiesThanStreams, Reproduces) {
  int additions = kStreamsInPool / 2;
  TRIGGER(additions = kStreamsInPool);
  REPRODUCES(capture(additions), "401", kHealthy);
}

TEST_F(MoreConditionalBodiesThanStreams, FixCaptureOnHighPriorityStream) {
  REMEDY(c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)));
  ASSERT_EQ(capture(kStreamsInPool), kHealthy);
  check_replays(kStreamsInPool);
}

TEST_F(MoreConditionalBodiesThanStreams, FixChooseByWhere) {
  bool has_bodies = true;
  REMEDY(has_bodies = false);
  ASSERT_EQ(capture(kStreamsInPool, has_bodies), kHealthy);
  check_replays(kStreamsInPool);
}
