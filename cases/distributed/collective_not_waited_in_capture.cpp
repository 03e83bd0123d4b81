// On one rank, a NCCL all-gather that is issued in a capture and never waited for leaves its stream unjoined: 904.
//
// ProcessGroupNCCL runs asynchronous collectives on a stream of its own, which the capturing stream forks to. Only
// Work::wait() joins it again. With that, collectives of all kinds can be captured: all-reduce, all-gather,
// reduce-scatter, several of them coalesced, with other work before the wait. Each is replayed three times here and its
// values checked in every rank. The first collective makes the communicator and comes before the capture. The document
// has the all-reduce on two ranks; that an all-gather on one fails without wait() is our own addition, and in no
// document. On two ranks it does not fail: there the capture ends joined in every release that was run, and why is not
// known.
//
// Alone:  g++ cases/distributed/collective_not_waited_in_capture.cpp $(tools/libtorch --flags) -o collective_not_waited_in_capture

#include <functional>

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "On one rank, a NCCL all-gather that is not waited for in its capture leaves the capture unjoined",
    .sources = {{"capture failures", "NCCL Watchdog Thread"}},
    .documented = "cudaErrorStreamCaptureUnjoined (904): all side streams need an exit sync",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes = {{"FixWaitInTheCapture",
               "Call wait() on every collective that is issued in a capture with async_op=True, before the capture "
               "ends."}},
    .connections = 8,
};

constexpr char kHealthy[] = "ok > active > ok";

class CollectiveNotWaitedInCapture : public NcclTest {
 protected:
  using Waits = c10::intrusive_ptr<c10d::Work>;
  using Collective = std::function<Waits(const Nccl&)>;

  void SetUp() override {
    NcclTest::SetUp();
    if (!this_rank() || IsSkipped() || HasFatalFailure()) return;
    const int of = this_rank()->of;
    in = at::zeros({4}, at::kCUDA);
    parts = at::zeros({of * 4}, at::kCUDA);
    one = at::zeros({4}, at::kCUDA);
    two = at::zeros({4}, at::kCUDA);
    all = at::zeros({of * 4}, at::kCUDA);
    beside = at::zeros({4}, at::kCUDA);
  }

  static Waits all_reduce(const Nccl& nccl, const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    return nccl->allreduce(tensors);
  }
  Waits all_gather(const Nccl& nccl) { return nccl->_allgather_base(all, in); }
  Waits reduce_scatter(const Nccl& nccl) { return nccl->_reduce_scatter_base(one, parts); }

  // Captures a collective, with a multiplication between its issue and its wait; then three replays and `check`, which
  // is given the value of rank 0. Each rank's is greater by its number.
  std::string captured(const Rank& rank, const Collective& collective, bool waits,
                       const std::function<void(const Rank&, double)>& check) {
    const Nccl nccl = nccl_of(rank);
    collective(nccl)->wait();  // Each kind's kernel is loaded.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    nccl->waitForPendingWorks();
    graph->capture_begin();
    const Failure first = failure_of([&] {
      one.copy_(in);
      two.copy_(in * 2);
      for (int i = 0; i < rank.of; ++i) parts.narrow(0, i * 4, 4).copy_(in + i);
      const Waits work = collective(nccl);
      beside.copy_(in * 3);
      if (waits) work->wait();
    });
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    if (first || end) return seen(first, status, end);
    for (const int value : {5, 7, 11}) {
      in.fill_(value + rank.number);
      for (const at::Tensor& each : {one, two, all, beside}) each.fill_(-1);
      graph->replay();
      check(rank, value);
      EXPECT_EQ(values(beside), std::vector<double>(4, 3.0 * (value + rank.number)));
    }
    return seen(first, status, end);
  }

  static double sum(const Rank& rank, double value) { return rank.of * value + rank.of * (rank.of - 1) / 2.0; }

  std::string all_reduced(int ranks) {
    return on_ranks(ranks, [&](const Rank& rank) {
      return captured(
          rank, [&](const Nccl& nccl) { return all_reduce(nccl, one); }, true,
          [&](const Rank& its, double value) { EXPECT_EQ(values(one), std::vector<double>(4, sum(its, value))); });
    });
  }
  std::string all_gathered(int ranks, const std::function<bool()>& waits) {
    return on_ranks(ranks, [&](const Rank& rank) {
      return captured(
          rank, [&](const Nccl& nccl) { return all_gather(nccl); }, waits(),
          [&](const Rank& its, double value) {
            std::vector<double> expected;
            for (int i = 0; i < its.of * 4; ++i) expected.push_back(value + i / 4);
            EXPECT_EQ(values(all), expected);
          });
    });
  }
  std::string reduce_scattered(int ranks) {
    return on_ranks(ranks, [&](const Rank& rank) {
      return captured(
          rank, [&](const Nccl& nccl) { return reduce_scatter(nccl); }, true,
          [&](const Rank& its, double value) {
            EXPECT_EQ(values(one), std::vector<double>(4, sum(its, value) + its.of * its.number));
          });
    });
  }
  std::string coalesced(int ranks) {
    return on_ranks(ranks, [&](const Rank& rank) {
      const auto both = [&](const Nccl& nccl) {
        nccl->startCoalescing();
        all_reduce(nccl, one);
        all_reduce(nccl, two);
        return nccl->endCoalescing();
      };
      return captured(rank, both, true, [&](const Rank& its, double value) {
        EXPECT_EQ(values(one), std::vector<double>(4, sum(its, value)));
        EXPECT_EQ(values(two), std::vector<double>(4, 2 * sum(its, value)));
      });
    });
  }

  at::Tensor in, parts, one, two, all, beside;
};

TEST_F(CollectiveNotWaitedInCapture, ControlAllReduce) {
  NEEDS_GPUS(1);
  EXPECT_EQ(all_reduced(1), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlAllGather) {
  NEEDS_GPUS(1);
  EXPECT_EQ(all_gathered(1, [] { return true; }), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlReduceScatter) {
  NEEDS_GPUS(1);
  EXPECT_EQ(reduce_scattered(1), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlCoalesced) {
  NEEDS_GPUS(1);
  EXPECT_EQ(coalesced(1), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlAllReduceOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(all_reduced(2), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlAllGatherOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(all_gathered(2, [] { return true; }), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlReduceScatterOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(reduce_scattered(2), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlCoalescedOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(coalesced(2), kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, ControlNotWaitedOnTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(all_gathered(2, [] { return false; }), kHealthy);
}

// An all-gather: for one rank an all-reduce in place has nothing to do, and leaves nothing to join.
TEST_F(CollectiveNotWaitedInCapture, Reproduces) {
  NEEDS_GPUS(1);
  const std::string seen = all_gathered(1, [] {
    bool waits = true;
    TRIGGER(waits = false);
    return waits;
  });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen, "ok > active > 904", kHealthy);
}
TEST_F(CollectiveNotWaitedInCapture, FixWaitInTheCapture) {
  NEEDS_GPUS(1);
  EXPECT_EQ(all_gathered(1,
                         [] {
                           bool waits = false;
                           REMEDY(waits = true);
                           return waits;
                         }),
            kHealthy);
}
