// The stream of a capture that was begun and never ended is handed out again while it still captures.
//
// An exception between capture_begin and capture_end unwinds past the end, and destroying the graph does not end the
// capture either. Its stream goes on capturing. LibTorch's pool hands out 32 streams in turn, so the 32nd stream that
// anybody asks for afterwards is the same one, and the first wait for it fails with 900, far from the cause. The remedy
// is an object that ends the capture when the stack unwinds.
//
// Alone:  g++ cases/aftermath/stream_pool_after_abandoned_capture.cpp $(tools/libtorch --flags) -o stream_pool_after_abandoned_capture

#include <memory>
#include <stdexcept>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The stream of an abandoned capture is handed out again while it still captures",
    .sources = {{"PyTorch source", "c10/cuda/CUDAStream.cpp: getStreamFromPool"}, {"upstream", "pytorch#190308"}},
    .documented = "the 32nd later getStreamFromPool returns a stream that is still capturing: 900",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "side streams"},
    .features = {"failed captures"},
    .fixes = {{"FixEndOnUnwinding",
               "Call capture_end() in the destructor of a guard object, ignoring its errors, so that an exception "
               "cannot skip it."}},
};

constexpr int kStreamsInPool = 32;

class StreamPoolAfterAbandonedCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // The last stream of a whole round of the pool, which is the one that this test captures on.
  c10::cuda::CUDAStream stream_of_next_round() {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream());
    c10::cuda::CUDAStream last = stream;
    for (int i = 0; i < kStreamsInPool; ++i) last = c10::cuda::getStreamFromPool();
    EXPECT_EQ(last.stream(), stream.stream());
    return last;
  }

  at::Tensor x;
};

TEST_F(StreamPoolAfterAbandonedCapture, Control) {
  graph->capture_begin();
  x.add_(1);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph.reset();
  const c10::cuda::CUDAStream later = stream_of_next_round();
  EXPECT_EQ(capture_status(later), "none");
  later.synchronize();
}

TEST_F(StreamPoolAfterAbandonedCapture, Reproduces) {
  graph->capture_begin();
  x.add_(1);
  WITHOUT_TRIGGER(graph->capture_end());
  graph.reset();
  const c10::cuda::CUDAStream later = stream_of_next_round();
  const std::string status = capture_status(later);
  const Failure wait = failure_of([&] { later.synchronize(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(status + " > " + wait.text, "active > 900", "none > ok");
}

TEST_F(StreamPoolAfterAbandonedCapture, FixEndOnUnwinding) {
  struct EndsCapture {
    Graph& graph;
    ~EndsCapture() {
      failure_of([&] { graph.capture_end(); });
    }
  };
  try {
    graph->capture_begin();
    std::unique_ptr<EndsCapture> ends;
    REMEDY(ends.reset(new EndsCapture{*graph}));
    x.add_(1);
    EXPECT_GT(captured_nodes(stream), 0);
    throw std::runtime_error("an error of the program in its captured code");
  } catch (const std::runtime_error&) {
    graph = make_graph();
  }
  const c10::cuda::CUDAStreamGuard guard(stream_of_next_round());
  stream.synchronize();
  graph->capture_begin();
  const at::Tensor y = x * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }
}
