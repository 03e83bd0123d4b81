// With NCCL_ASYNC_ERROR_HANDLING=0 a NCCL collective that takes too long goes unnoticed.
//
// The document's remedy for captures beside NCCL before 2.2: the variable keeps the process group's thread from acting
// on what it finds, and so time-outs and errors of collectives too. Here a collective is held up on the GPU for longer
// than its time-out. From 2.2 on the watchdog ends the process for that, unless the variable is 0, by its new name or
// by the old one; 2.1 reports the time-out in its log, and the process goes on. The document says that the variable
// turns the thread off that queries; whether it still asks is seen from its lists, which are empty at once if it never
// had the collective.
//
// Alone:  g++ cases/distributed/nccl_error_handling_off.cpp $(tools/libtorch --flags) -o nccl_error_handling_off

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "With NCCL_ASYNC_ERROR_HANDLING=0 a collective that times out goes unnoticed",
    .sources = {{"capture failures", "NCCL Watchdog Thread"}},
    .documented = "This worked but disabled async error detection.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixLeaveItUnset",
          "From PyTorch 2.1.1 on, leave TORCH_NCCL_ASYNC_ERROR_HANDLING unset: captures beside NCCL's watchdog need "
          "no variable.",
          ">=2.1.1"}},
    .connections = 8,
};

constexpr char kNoticed[] = "rank 0 died first: signal 6";
constexpr char kNewName[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING", kOldName[] = "NCCL_ASYNC_ERROR_HANDLING";

class NcclErrorHandlingOff : public NcclTest {
 protected:
  using Environment = std::map<std::string, std::string>;
  static constexpr int64_t kCycles = 1'000'000'000;  // Some half second.

  void all_reduce_later(const Nccl& nccl, int halves_of_a_second) {
    for (int i = 0; i < halves_of_a_second; ++i) at::cuda::sleep(kCycles);
    std::vector<at::Tensor> tensors{at::ones({8}, at::kCUDA)};
    nccl->allreduce(tensors)->wait();
  }

  // A collective that takes some five times as long as it may.
  std::string timed_out(Environment variables) {
    variables["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "250";  // The watchdog waits four times as long before it acts.
    return on_ranks(
        1,
        [&](const Rank& rank) {
          all_reduce_later(nccl_of(rank, std::chrono::seconds(2)), 20);
          EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
          return "unnoticed";
        },
        variables);
  }

  std::string watched(const Environment& variables) {
    return on_ranks(
        1,
        [&](const Rank& rank) {
          const Nccl nccl = nccl_of(rank);
          all_reduce_later(nccl, 1);
          at::cuda::CUDAEvent finished;
          finished.record(stream);
          nccl->waitForPendingWorks();
          return finished.query() ? "watched" : "not watched";
        },
        variables);
  }
};

TEST_F(NcclErrorHandlingOff, Control) {
  NEEDS_GPUS(1);
  EXPECT_EQ(timed_out({}), kNoticed);
}

TEST_F(NcclErrorHandlingOff, Reproduces) {
  NEEDS_GPUS(1);
  Environment variables;
  TRIGGER(variables[kNewName] = "0");
  REPRODUCES(timed_out(variables), "unnoticed", kNoticed);
}

TEST_F(NcclErrorHandlingOff, ReproducesByItsOldName) {
  NEEDS_GPUS(1);
  Environment variables;
  TRIGGER(variables[kOldName] = "0");
  REPRODUCES(timed_out(variables), "unnoticed", kNoticed);
}

TEST_F(NcclErrorHandlingOff, ReproducesNoQueries) {
  NEEDS_GPUS(1);
  Environment variables;
  TRIGGER(variables[kOldName] = "0");
  REPRODUCES(watched(variables), "not watched", "watched");
}

TEST_F(NcclErrorHandlingOff, FixLeaveItUnset) {
  NEEDS_GPUS(1);
  Environment variables;
  WITHOUT_REMEDY(variables[kNewName] = "0");
  EXPECT_EQ(timed_out(variables), kNoticed);
}
