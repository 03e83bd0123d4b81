// Of two captures that overlap, the one that ends later can no longer draw random numbers.
//
// CUDA allows captures on two streams at once. The default generator, which both use, has one flag that says whether it
// is being captured, not one for each capture. The first capture to end clears it, and random numbers in the other are
// refused as if nothing were captured. The two captures may belong to one thread or to two; the threads here take turns
// by promises. One thread needs relaxed mode for both: ending a capture instantiates its graph, which CUDA refuses
// (900) to a thread that has another capture open in a stricter mode. From 2.12 on a generator keeps its state for each
// capture, and there is no such flag.
//
// Alone:  g++ cases/threads/random_numbers_in_concurrent_captures.cpp $(tools/libtorch --flags) -o random_numbers_in_concurrent_captures

#include <future>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Once one of two overlapping captures has ended, the other cannot draw random numbers",
    .sources = {{"upstream", "pytorch#176752"}},
    .documented = "Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"threads", "generators", "several graphs", "side streams"},
    .features = {"generators", "several graphs"},
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
  for (const int value : {5, 7}) {
    x.fill_(value);
    z.fill_(value);
    graph->replay();
    other->replay();
    EXPECT_EQ(values(x), std::vector<double>(8, 3.0 * (value + 1)));
    EXPECT_EQ(values(z), std::vector<double>(8, 2.0 * value));
  }
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
  const auto capture_other = [&] {
    const c10::cuda::CUDAStreamGuard guard(side);
    other->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
    z.uniform_();
    EXPECT_GT(captured_nodes(side), 0);
    other->capture_end();
  };
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  WITHOUT_REMEDY(capture_other());
  x.uniform_();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  REMEDY(capture_other());
  for (int i = 0; i < 2; ++i) {
    const std::vector<double> x_before = values(x), z_before = values(z);
    graph->replay();
    other->replay();
    EXPECT_NE(values(x), x_before);
    EXPECT_NE(values(z), z_before);
  }
}
