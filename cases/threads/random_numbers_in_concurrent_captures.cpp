// Of two captures that overlap, the one that ends later loses its random numbers.
//
// CUDA allows captures on two streams at once. The default generator, which both use, has one flag that says whether it
// is captured, not one for each capture. The first capture to end clears it, and random numbers in the other are
// refused as if nothing captured. The two captures may belong to one thread or to two; the threads here take turns by
// promises. One thread needs relaxed mode for both: ending a capture instantiates its graph, which CUDA refuses (900)
// in a thread that has another capture open in a stricter mode. From per-capture generator state on there is no such
// flag.
//
// Alone:  g++ cases/threads/random_numbers_in_concurrent_captures.cpp $(ci/libtorch --flags) -o random_numbers_in_concurrent_captures

#include <future>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ending one of two overlapping captures takes the random numbers from the other",
    .sources = {{"upstream", "pytorch#176752"}},
    .documented = "Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .fixes = {{"FixOneCaptureAtATime",
               "End one capture before you begin the next if either of them draws random numbers from the default "
               "generator."}},
};

class RandomNumbersInConcurrentCaptures : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    other = make_graph();
    x = at::zeros({8}, at::kCUDA);
    x.uniform_();
    side = c10::cuda::getStreamFromPool();
    const c10::cuda::CUDAStreamGuard guard(side);
    z = at::ones({8}, at::kCUDA);  // Also leaves the allocator a small segment for this stream.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  std::unique_ptr<Graph> other;
  at::Tensor x, z;
  c10::cuda::CUDAStream side = stream;
};

TEST_F(RandomNumbersInConcurrentCaptures, Control) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  x.add_(1);
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    other->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
    z.mul_(2);
    EXPECT_GT(captured_nodes(side), 0);
    other->capture_end();
  }
  x.mul_(3);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  x.fill_(1);
  graph->replay();
  EXPECT_EQ(values(x), std::vector<double>(8, 6));
}

TEST_F(RandomNumbersInConcurrentCaptures, Reproduces) {
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  x.uniform_();
  TRIGGER({
    const c10::cuda::CUDAStreamGuard guard(side);
    other->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
    z.mul_(2);
    other->capture_end();
  });
  const Failure first = failure_of([&] { x.uniform_(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Attempt to increase offset for a CUDA generator not in capture mode.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(RandomNumbersInConcurrentCaptures, ReproducesInTwoThreads) {
  std::promise<void> first_begun, second_ended;
  std::thread thread([&] {
    const c10::cuda::CUDAStreamGuard guard(side);
    first_begun.get_future().wait();
    TRIGGER(failure_of([&] {
      other->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      z.mul_(2);
      other->capture_end();
    }));
    second_ended.set_value();
  });
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  x.uniform_();
  first_begun.set_value();
  second_ended.get_future().wait();
  const Failure first = failure_of([&] { x.uniform_(); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  thread.join();
  REPRODUCES(seen(first, status, end),
             "check \"Attempt to increase offset for a CUDA generator not in capture mode.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(RandomNumbersInConcurrentCaptures, FixOneCaptureAtATime) {
  graph->capture_begin();
  x.uniform_();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    other->capture_begin();
    z.uniform_();
    EXPECT_GT(captured_nodes(side), 0);
    other->capture_end();
  }
  graph->replay();
  const std::vector<double> before = values(x);
  graph->replay();
  EXPECT_NE(values(x), before);
}
