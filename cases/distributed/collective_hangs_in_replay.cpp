// A captured collective that hangs is never timed out: the process group's watchdog does not know of it.
//
// ProcessGroupNCCL hands each collective to its watchdog, which ends the process when the collective takes longer than
// the group's time-out. A collective that is issued in a capture is not handed over, because the events that the
// watchdog would query belong to the capture, and a replay passes ProcessGroupNCCL by. So a replay that waits for a
// rank which does not come waits for ever, and the flight recorder has no entry of it. With one GPU the collective is
// held up for longer than its time-out and then ends; with two, one rank replays and the other does not. What
// torchcomms does about it, events of its own in the graph, is left out: it is no part of LibTorch.
//
// Alone:  g++ cases/distributed/collective_hangs_in_replay.cpp $(tools/libtorch --flags) -o collective_hangs_in_replay

#include <gmock/gmock.h>

#include "fixtures/cuda/limit.h"
#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A collective that hangs in a replay is never timed out",
    .sources = {{"upstream", "pytorch#102542"}, {"upstream", "torchcomms#750"}},
    .documented = "when capturing a CUDA graph, we do not enqueue anything for the watchdog thread to consider",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::Hangs,
    .effects = {{"Reproduces", Effect::SilentlyWrong}},
    .fixes = {{"FixDeadlineOfYourOwn",
               "Record an event after graph.replay(), query it with a deadline of your own, and end the process when "
               "it has passed."},
              {"FixEagerCollectiveFirst",
               "Begin each step with a small eager collective of the same group: the watchdog times that one out when "
               "a rank does not come."}},
    .connections = 8,
};

class CollectiveHangsInReplay : public NcclTest {
 protected:
  static constexpr int64_t kCycles = 1'000'000'000;  // Some half second.
  static constexpr std::chrono::seconds kTimeout{10}, kLimit{30};
  static constexpr double kPatience_s = 75;  // The start of two ranks takes some ten of them.

  // The watchdog waits four times as long before it acts.
  const std::map<std::string, std::string> kQuickly = {{"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250"}};

  void all_reduce(const Nccl& nccl) {
    std::vector<at::Tensor> tensors{sum};
    nccl->allreduce(tensors)->wait();
  }

  // sum = the ranks' x, in all ranks. `hold` puts work before the collective. This and all later collectives have the
  // time-out; the first ones, which connect the ranks and load kernels, have a minute, as they take long beside load.
  void capture(
      const Nccl& nccl, std::chrono::seconds timeout, const std::function<void()>& hold = [] {}) {
    all_reduce(nccl);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    nccl->waitForPendingWorks();
    nccl->getOptions()->timeout = timeout;
    graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    hold();
    sum.copy_(x);
    all_reduce(nccl);
    graph->capture_end();
  }

  void make_tensors() { x = at::ones({8}, at::kCUDA), sum = at::ones({8}, at::kCUDA); }

  static void hold_up() {
    for (int i = 0; i < 20; ++i) at::cuda::sleep(kCycles);
  }

  // A collective of one rank that takes some five times as long as it may.
  std::string held_up(bool captured) {
    return on_ranks(
        1,
        [&](const Rank& rank) {
          make_tensors();
          const Nccl nccl = nccl_of(rank);
          capture(nccl, std::chrono::seconds(2), hold_up);
          if (captured) {
            graph->replay();
          } else {
            hold_up();
            all_reduce(nccl);
          }
          EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
          return "unnoticed";
        },
        kQuickly);
  }

  // Rank 0 begins a collective in which rank 1 takes no part.
  std::string without_the_other(bool captured) {
    return on_ranks(
        2,
        [&](const Rank& rank) -> std::string {
          make_tensors();
          const Nccl nccl = nccl_of(rank);
          capture(nccl, kTimeout);
          if (rank.number == 1) return "absent";
          captured ? graph->replay() : all_reduce(nccl);
          return ends_within(kLimit, stream) ? "ended" : "still waits";
        },
        kQuickly, kPatience_s);
  }

  void replay_and_compare(const Rank& rank, int value) {
    x.fill_(value + rank.number);
    graph->replay();
    EXPECT_EQ(values(sum), std::vector<double>(8, 2.0 * value + 1));
  }

  at::Tensor x, sum;
};

constexpr char kNoticed[] = "rank * died first: signal 6", kWaits[] = "rank 0: still waits; rank 1: absent";

TEST_F(CollectiveHangsInReplay, Control) {
  NEEDS_GPUS(1);
  EXPECT_EQ(held_up(false), "rank 0 died first: signal 6");
}

TEST_F(CollectiveHangsInReplay, ControlOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_THAT(without_the_other(false), ::testing::MatchesRegex("rank [01] died first: signal 6"));
}

TEST_F(CollectiveHangsInReplay, Reproduces) {
  NEEDS_GPUS(1);
  bool captured = false;
  TRIGGER(captured = true);
  REPRODUCES(held_up(captured), "unnoticed", kNoticed);
}

TEST_F(CollectiveHangsInReplay, ReproducesOnTwoRanks) {
  NEEDS_GPUS(2);
  bool captured = false;
  TRIGGER(captured = true);
  REPRODUCES(without_the_other(captured), kWaits, kNoticed);
}

TEST_F(CollectiveHangsInReplay, FixDeadlineOfYourOwn) {
  NEEDS_GPUS(2);
  const std::string seen = on_ranks(
      2,
      [&](const Rank& rank) -> std::string {
        make_tensors();
        const Nccl nccl = nccl_of(rank);
        capture(nccl, kTimeout);
        for (const int value : {5, 7}) replay_and_compare(rank, value);
        if (rank.number == 1) return "absent";
        graph->replay();
        REMEDY(if (!ends_within(std::chrono::seconds(2), stream)) return "noticed");
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        return "ended";
      },
      kQuickly, kPatience_s);
  EXPECT_EQ(seen, "rank 0: noticed; rank 1: absent");
}

TEST_F(CollectiveHangsInReplay, FixEagerCollectiveFirst) {
  NEEDS_GPUS(2);
  const std::string seen = on_ranks(
      2,
      [&](const Rank& rank) -> std::string {
        make_tensors();
        std::vector<at::Tensor> ready{at::ones({1}, at::kCUDA)};
        const Nccl nccl = nccl_of(rank);
        capture(nccl, kTimeout);
        for (const int value : {5, 7}) {
          REMEDY(nccl->allreduce(ready)->wait());
          replay_and_compare(rank, value);
        }
        if (rank.number == 1) return "absent";
        REMEDY(nccl->allreduce(ready)->wait());
        graph->replay();
        return ends_within(kLimit, stream) ? "ended" : "still waits";
      },
      kQuickly, kPatience_s);
  EXPECT_THAT(seen, ::testing::MatchesRegex("rank [01] died first: signal 6"));
}
