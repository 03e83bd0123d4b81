// Until its eleventh iteration, DistributedDataParallel waits for events in forward(), which breaks a capture.
//
// In each of its first ten iterations, and in every hundredth one after them, the Reducer records events for the
// statistics of its run. The next forward() waits for these events (Logger::set_runtime_stats_and_log), and in a
// capture that wait fails. So an iteration that is captured after three warm-ups fails, after ten as well, and after
// eleven it does not, as the document has it. What the document does not have: after none it does not fail either,
// since there is nothing to wait for yet, and after a hundred it does. DistributedDataParallel is made on the stream
// that captures, so ddp_on_default_stream has no part in it.
//
// Alone:  g++ cases/distributed/ddp_statistics_in_capture.cpp $(tools/libtorch --flags) -o ddp_statistics_in_capture

#include "fixtures/torch/data_parallel.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "DistributedDataParallel captured before its eleventh warm-up waits for its statistics",
    .sources = {{"capture failures", "DistributedDataParallel: Default Stream Conflict"},
                {"capture failures", "Quick Reference"},
                {"PyTorch documentation", "CUDA semantics: Usage with DistributedDataParallel"}},
    .documented =
        "DDP requires 11 warmup iterations (not 3) because it performs internal setup and logging around "
        "iteration 10",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"DDP", "NCCL", "autograd"},
    .features = {"DDP"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes = {{"FixElevenWarmUps",
               "Run at least eleven iterations of DistributedDataParallel before the capture, and not a multiple of a "
               "hundred."},
              {"FixElevenWarmUpsTwoRanks",
               "In every rank, run at least eleven iterations of DistributedDataParallel before the capture."}},
    .connections = 8,
};

constexpr int kEnough = 11;
constexpr char kDocumented[] = "900 > invalidated > 901", kHealthy[] = "ok > active > ok";

class DdpStatisticsInCapture : public DataParallelTest {
 protected:
  std::string captured_after(int warm_ups, int ranks = 1, bool with_nccl = false) {
    return on_ranks(ranks, [&](const Rank& rank) {
      return captured(rank, with_nccl ? process_group_of(nccl_of(rank)) : process_group_of_one(), stream, warm_ups);
    });
  }
};

TEST_F(DdpStatisticsInCapture, Control) {
  NEEDS_GPUS(1);
  EXPECT_EQ(captured_after(kEnough), kHealthy);
}

TEST_F(DdpStatisticsInCapture, ControlWithoutWarmUps) {
  NEEDS_GPUS(1);
  EXPECT_EQ(captured_after(0), kHealthy);
}

TEST_F(DdpStatisticsInCapture, Reproduces) {
  NEEDS_GPUS(1);
  int warm_ups = kEnough;
  TRIGGER(warm_ups = 3);
  const std::string seen = captured_after(warm_ups);
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpStatisticsInCapture, ReproducesAfterTen) {
  NEEDS_GPUS(1);
  int warm_ups = kEnough;
  TRIGGER(warm_ups = 10);
  const std::string seen = captured_after(warm_ups);
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpStatisticsInCapture, ReproducesAfterAHundred) {
  NEEDS_GPUS(1);
  int warm_ups = 101;
  TRIGGER(warm_ups = 100);
  const std::string seen = captured_after(warm_ups);
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpStatisticsInCapture, ReproducesWithNccl) {
  NEEDS_GPUS(1);
  int warm_ups = kEnough;
  TRIGGER(warm_ups = 3);
  const std::string seen = captured_after(warm_ups, 1, true);
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpStatisticsInCapture, ReproducesOnTwoRanks) {
  NEEDS_GPUS(2);
  int warm_ups = kEnough;
  TRIGGER(warm_ups = 3);
  const std::string seen = captured_after(warm_ups, 2, true);
  RAISED_BY("cuEventSynchronize");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpStatisticsInCapture, FixElevenWarmUps) {
  NEEDS_GPUS(1);
  int warm_ups = 3;
  REMEDY(warm_ups = kEnough);
  EXPECT_EQ(captured_after(warm_ups, 1, true), kHealthy);
}

TEST_F(DdpStatisticsInCapture, FixElevenWarmUpsTwoRanks) {
  NEEDS_GPUS(2);
  int warm_ups = 3;
  REMEDY(warm_ups = kEnough);
  EXPECT_EQ(captured_after(warm_ups, 2, true), kHealthy);
}
