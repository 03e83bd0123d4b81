// One thread that launches the graphs of two GPUs deadlocks when a launch blocks.
//
// A graph with a collective does not end before the other GPU's graph runs. cudaGraphLaunch() returns at once until the
// GPU's queue is full; then it blocks until a graph ends. In a thread that has yet to launch the other GPU's graphs, it
// never returns. NCCL's guide has it in general: in some cases the launch may block, and it adds that what NCCL puts
// into a graph to order it after other work of the communicator can block it too, unless NCCL_GRAPH_MIXING_SUPPORT=0.
// Here NCCL's own functions connect two GPUs of one process, as LibTorch never does, and each GPU has a graph of one
// all-reduce. The thread launches either all graphs of one GPU and then those of the other, or both in turn.
//
// Alone:  g++ cases/distributed/graphs_of_two_gpus_in_one_thread.cpp $(tools/libtorch --flags) -o graphs_of_two_gpus_in_one_thread

#include <array>
#include <future>
#include <thread>

#include "fixtures/cuda/limit.h"
#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "One thread that launches the graphs of two GPUs blocks in a launch for ever",
    .sources = {{"NCCL user guide", "Using NCCL with CUDA Graphs"}, {"upstream", "vllm#2770"}},
    .documented =
        "A deadlock is likely to occur with single-threaded applications: in some cases cudaGraphLaunch may block, "
        "preventing the launch across all GPUs.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "raw CUDA calls", "threads", "several graphs"},
    .features = {"several graphs"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::Hangs,
    .fixes = {{"FixThreadForEachGpu", "Launch the graphs of each GPU from a thread of its own."},
              {"FixProcessForEachGpu", "Run one process for each GPU, as torchrun does."}},
    .connections = 8,
};

class GraphsOfTwoGpusInOneThread : public NcclTest {
 protected:
  static constexpr int kGpus = 2, kElements = 1024;
  static constexpr int kLaunches = 8192;  // More than a GPU's queue has room for.
  static constexpr std::chrono::seconds kLimit{20};
  static constexpr double kPatience_s = 75;

  struct Gpu {
    int device = 0;
    cudaStream_t stream = nullptr;
    ncclComm_t communicator = nullptr;
    at::Tensor x, sum;
    cudaGraphExec_t exec = nullptr;
  };

  static void check(ncclResult_t result) { EXPECT_EQ(result, ncclSuccess); }
  static void check(cudaError_t result) { EXPECT_EQ(result, cudaSuccess); }

  void all_reduce() {
    check(nccl_function<decltype(ncclGroupStart)>("ncclGroupStart")());
    for (Gpu& gpu : gpus) {
      check(nccl_function<decltype(ncclAllReduce)>("ncclAllReduce")(gpu.x.data_ptr(), gpu.sum.data_ptr(), kElements,
                                                                    ncclFloat, ncclSum, gpu.communicator, gpu.stream));
    }
    check(nccl_function<decltype(ncclGroupEnd)>("ncclGroupEnd")());
  }

  void capture() {
    ncclComm_t communicators[kGpus];
    check(nccl_function<decltype(ncclCommInitAll)>("ncclCommInitAll")(communicators, kGpus, nullptr));
    for (int device = 0; device < kGpus; ++device) {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
      Gpu& gpu = gpus[static_cast<size_t>(device)];
      gpu.device = device;
      gpu.communicator = communicators[device];
      check(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking));
      gpu.x = at::ones({kElements}, at::kCUDA), gpu.sum = at::zeros({kElements}, at::kCUDA);
      check(cudaDeviceSynchronize());
    }
    all_reduce();
    synchronize();
    for (const Gpu& gpu : gpus) check(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
    all_reduce();
    std::array<cudaGraph_t, kGpus> captured{};
    for (const Gpu& gpu : gpus) {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(gpu.device));
      check(cudaStreamEndCapture(gpu.stream, &captured[static_cast<size_t>(gpu.device)]));
    }
    for (Gpu& gpu : gpus) {  // Refused while the thread has an open capture.
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(gpu.device));
      check(cudaGraphInstantiateWithFlags(&gpu.exec, captured[static_cast<size_t>(gpu.device)], 0));
    }
  }

  void synchronize() {
    for (const Gpu& gpu : gpus) {
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(gpu.device));
      check(cudaDeviceSynchronize());
    }
  }

  static void launch(const Gpu& gpu, int times) {
    check(cudaSetDevice(gpu.device));
    for (int i = 0; i < times; ++i) check(cudaGraphLaunch(gpu.exec, gpu.stream));
  }

  void launch_all_of_each() {
    for (const Gpu& gpu : gpus) launch(gpu, kLaunches);
  }

  void launch_in_turn() {
    for (int i = 0; i < kLaunches; ++i) {
      for (const Gpu& gpu : gpus) launch(gpu, 1);
    }
  }

  void launch_in_two_threads() {
    std::thread other([&] { launch(gpus[1], kLaunches); });
    launch(gpus[0], kLaunches);
    other.join();
  }

  // Two times: x is filled, the graphs are launched, and the last of them gives the sums.
  std::string launched(const std::function<void()>& launch_graphs) {
    return on_ranks(
        1,
        [&](const Rank&) -> std::string {
          capture();
          for (const int value : {3, 5}) {
            for (const Gpu& gpu : gpus) gpu.x.fill_(value + gpu.device);
            synchronize();
            if (!returns(launch_graphs)) return "a launch does not return";
            for (const Gpu& gpu : gpus) {
              check(cudaSetDevice(gpu.device));
              if (!ends_within(kLimit, gpu.stream)) return "a graph does not end";
              EXPECT_EQ(values(gpu.sum), std::vector<double>(kElements, 2.0 * value + 1));
            }
          }
          return "launched";
        },
        {}, kPatience_s);
  }

  // In a thread that is left alone if it does not come back.
  static bool returns(const std::function<void()>& call) {
    std::packaged_task<void()> task(call);
    std::future<void> end = task.get_future();
    std::thread(std::move(task)).detach();
    return end.wait_for(kLimit) == std::future_status::ready;
  }

  std::array<Gpu, kGpus> gpus;
};

TEST_F(GraphsOfTwoGpusInOneThread, Control) {
  NEEDS_GPUS(2);
  EXPECT_EQ(launched([&] { launch_in_two_threads(); }), "launched");
}

TEST_F(GraphsOfTwoGpusInOneThread, Reproduces) {
  NEEDS_GPUS(2);
  const std::string seen = launched([&] {
    bool one_thread = false;
    TRIGGER(one_thread = true);
    one_thread ? launch_all_of_each() : launch_in_two_threads();
  });
  REPRODUCES(seen, "a launch does not return", "launched");
}

TEST_F(GraphsOfTwoGpusInOneThread, ReproducesInTurn) {
  NEEDS_GPUS(2);
  const std::string seen = launched([&] {
    bool one_thread = false;
    TRIGGER(one_thread = true);
    one_thread ? launch_in_turn() : launch_in_two_threads();
  });
  REPRODUCES(seen, "a launch does not return", "launched");
}

TEST_F(GraphsOfTwoGpusInOneThread, FixThreadForEachGpu) {
  NEEDS_GPUS(2);
  EXPECT_EQ(launched([&] {
              bool one_thread = true;
              REMEDY(one_thread = false);
              one_thread ? launch_all_of_each() : launch_in_two_threads();
            }),
            "launched");
}

TEST_F(GraphsOfTwoGpusInOneThread, FixProcessForEachGpu) {
  NEEDS_GPUS(2);
  bool one_process = true;
  REMEDY(one_process = false);
  if (one_process) {
    EXPECT_EQ(launched([&] { launch_all_of_each(); }), "launched");
    return;
  }
  EXPECT_EQ(on_ranks(
                kGpus,
                [&](const Rank& rank) -> std::string {
                  const Nccl nccl = nccl_of(rank);
                  at::Tensor x = at::ones({kElements}, at::kCUDA);
                  std::vector<at::Tensor> sums{at::zeros({kElements}, at::kCUDA)};
                  nccl->allreduce(sums)->wait();
                  check(cudaDeviceSynchronize());
                  nccl->waitForPendingWorks();
                  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
                  sums[0].copy_(x);
                  nccl->allreduce(sums)->wait();
                  graph->capture_end();
                  for (const int value : {3, 5}) {
                    x.fill_(value + rank.number);
                    for (int i = 0; i < kLaunches; ++i) graph->replay();
                    if (!ends_within(kLimit, stream)) return "a graph does not end";
                    EXPECT_EQ(values(sums[0]), std::vector<double>(kElements, 2.0 * value + 1));
                  }
                  return "launched";
                },
                {}, kPatience_s),
            "launched");
}
