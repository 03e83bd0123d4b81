// DistributedDataParallel(find_unused_parameters=True) copies its map of used parameters to the host in the backward
// pass, which breaks a capture once a parameter is unused.
//
// With the option the Reducer reduces a map of the parameters that took part in the loss. Where a parameter did not
// take part on this rank, it has to know whether another rank used it, and copies the map to the host, blocking
// (Reducer::finalize_bucket_dense). A capture forbids that. In 2.6 the pinned copy of the map, which comes before, is
// refused first: the allocator of pinned memory queries an event in the engine's thread. From 2.11 on PyTorch refuses
// the copy in words of its own. Eleven warm-ups are made first, because the statistics of the first ones wait for
// events as well (ddp_statistics_in_capture).
//
// One process is enough, and needs no NCCL. The parts of DistributedDataParallel that are C++ run here.
//
// Alone:  g++ cases/distributed/unused_parameters_in_capture.cpp $(tools/libtorch --flags) -o unused_parameters_in_capture

#include "fixtures/torch/c10d.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "With find_unused_parameters=True and an unused parameter, a captured backward pass of DDP fails",
    .sources = {{"PyTorch source", "torch/csrc/distributed/c10d/reducer.cpp: finalize_bucket_dense"}},
    .documented = "Blocking copy, if local_used_map_dev_ is cuda",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"DDP", "autograd", "host reads"},
    .features = {"DDP"},
    .deadline_s = 120,
    .fixes = {{"FixUseEveryParameter",
               "Leave find_unused_parameters off, and let every parameter take part in the loss: add "
               "0 * unused.sum() where a branch leaves one out."}},
};

namespace {

// As fixtures/torch/c10d.h makes it, with the option.
template <class R>
std::shared_ptr<R> reducer_of(const std::vector<at::Tensor>& parameters, const ProcessGroup& group, bool find_unused) {
  using Parameters = std::vector<at::Tensor>;
  using Buckets = std::vector<std::vector<size_t>>;
  using Sparse = std::vector<bool>;
  using Names = std::unordered_map<size_t, std::string>;
  Buckets buckets(1);
  for (size_t i = parameters.size(); i > 0; --i) buckets[0].push_back(i - 1);
  const Sparse sparse(parameters.size(), false);
  const int64_t limit = int64_t{25} << 20;
  if constexpr (std::is_constructible_v<R, Parameters, Buckets, std::vector<size_t>, ProcessGroup, Sparse, int64_t,
                                        bool, bool, Names, int64_t>) {
    const std::vector<size_t> limits(1, static_cast<size_t>(limit));
    return std::make_shared<R>(parameters, buckets, limits, group, sparse, limit, find_unused, false, Names(), limit);
  } else if constexpr (std::is_constructible_v<R, Parameters, Buckets, ProcessGroup, Sparse, int64_t, bool, bool, Names,
                                               int64_t, bool, bool, std::vector<int64_t>>) {
    return std::make_shared<R>(parameters, buckets, group, sparse, limit, find_unused, false, Names(), limit, false,
                               false, std::vector<int64_t>());
  } else if constexpr (std::is_constructible_v<R, Parameters, Buckets, ProcessGroup, Sparse, int64_t, bool, bool, Names,
                                               int64_t, bool, bool>) {
    return std::make_shared<R>(parameters, buckets, group, sparse, limit, find_unused, false, Names(), limit, false,
                               false);
  } else {
    return std::make_shared<R>(parameters, buckets, group, sparse, limit, find_unused, false, Names(), limit);
  }
}

}  // namespace

class UnusedParametersInCapture : public GpuTest {
 protected:
  static constexpr int kWarmUps = 11;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::ones({4}, at::kCUDA);
    used = at::ones({4}, at::kCUDA).requires_grad_();
    unused = at::ones({4}, at::kCUDA).requires_grad_();
    loss(true).backward();  // Starts the engine's threads.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  at::Tensor loss(bool uses_all) {
    const at::Tensor branch = (used * x).sum();
    return uses_all ? branch + 0 * unused.sum() : branch;
  }

  // One captured iteration after eleven. Checks the gradients after two replays.
  std::string captured(bool find_unused, bool uses_all) {
    const std::shared_ptr<c10d::Reducer> reducer =
        reducer_of<c10d::Reducer>({used, unused}, process_group_of_one(), find_unused);
    const auto logger = std::make_shared<c10d::Logger>(reducer);
    reducer->set_logger(logger);
    const auto iteration = [&] {
      used.mutable_grad().reset();
      unused.mutable_grad().reset();
      logger->set_runtime_stats_and_log();
      reducer->prepare_for_forward();
      reducer->rebuild_buckets();
      const at::Tensor result = loss(uses_all);
      reducer->prepare_for_backward({result});
      result.backward();
    };
    for (int i = 0; i < kWarmUps; ++i) iteration();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    graph->capture_begin();
    const Failure first = failure_of(iteration);
    const std::string status = capture_status(stream);
    const int nodes = captured_nodes(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    if (first || end) return seen(first, status, end);
    EXPECT_GT(nodes, 0);
    for (const int value : {3, 5}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(used.grad())[0], value);
    }
    return seen(first, status, end);
  }

  at::Tensor x, used, unused;
};

constexpr char kHealthy[] = "ok > active > ok";

TEST_F(UnusedParametersInCapture, ControlEager) {
  const std::shared_ptr<c10d::Reducer> reducer =
      reducer_of<c10d::Reducer>({used, unused}, process_group_of_one(), true);
  for (int i = 0; i < 3; ++i) {
    used.mutable_grad().reset();
    reducer->prepare_for_forward();
    const at::Tensor result = loss(false);
    reducer->prepare_for_backward({result});
    result.backward();
    EXPECT_EQ(values(used.grad())[0], 1);
  }
}

TEST_F(UnusedParametersInCapture, Control) { EXPECT_EQ(captured(/*find_unused=*/false, /*uses_all=*/true), kHealthy); }

TEST_F(UnusedParametersInCapture, Reproduces) {
  bool find_unused = false, uses_all = true;
  TRIGGER(find_unused = true; uses_all = false);
  REPRODUCES(captured(find_unused, uses_all), "900 > invalidated > 901", kHealthy);
}

TEST_F(UnusedParametersInCapture, FixUseEveryParameter) {
  bool find_unused = true, uses_all = false;
  REMEDY(find_unused = false; uses_all = true);
  EXPECT_EQ(captured(find_unused, uses_all), kHealthy);
}
