// A DistributedDataParallel made on the default stream makes backward() in a capture on another stream fail.
//
// c10d's own Reducer and Logger, called as the Python class calls them: the Reducer's constructor gets each parameter's
// AccumulateGrad node by grad_accumulator(), hooks it for the all-reduce, and holds it. So the stream that was current
// then decides for good where the gradients accumulate, and eleven warm-ups on the capturing stream change nothing. The
// process group is one of a single process without NCCL, or NCCL's with one rank or two. The document's Python program
// is in ddp_on_default_stream_in_python, and why eleven warm-ups in ddp_statistics_in_capture.
//
// Alone:  g++ cases/distributed/ddp_on_default_stream.cpp $(tools/libtorch --flags) -o ddp_on_default_stream

#include "fixtures/torch/data_parallel.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "DistributedDataParallel made on the default stream breaks captured backward passes",
    .sources = {{"capture failures", "DistributedDataParallel: Default Stream Conflict"},
                {"PyTorch documentation", "CUDA semantics: Usage with DistributedDataParallel"},
                {"upstream", "pytorch#180090"}},
    .documented =
        "cudaErrorStreamCaptureImplicit(906): operation would make the legacy stream depend on a capturing "
        "blocking stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"DDP", "NCCL", "autograd", "default stream"},
    .features = {"DDP"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes =
        {{"FixMakeOnCapturingStream",
          "Construct DistributedDataParallel under torch.cuda.stream(s), warm up and capture on s."},
         {"FixMakeOnCapturingStreamTwoRanks",
          "In every rank, construct DistributedDataParallel under torch.cuda.stream(s), warm up and capture on s."}},
    .connections = 8,
};

constexpr int kWarmUps = 11;
constexpr char kDocumented[] = "906 > invalidated > 901", kHealthy[] = "ok > active > ok";

class DdpOnDefaultStream : public DataParallelTest {
 protected:
  // What the ranks see, each with a DataParallel of its own that is made on the default stream or on the capturing one.
  std::string made_on(bool default_stream, int ranks, bool with_nccl, int warm_ups = kWarmUps) {
    return on_ranks(ranks, [&](const Rank& rank) {
      const ProcessGroup group = with_nccl ? process_group_of(nccl_of(rank)) : process_group_of_one();
      return captured(rank, group, default_stream ? c10::cuda::getDefaultCUDAStream() : stream, warm_ups);
    });
  }
};

TEST_F(DdpOnDefaultStream, Control) {
  NEEDS_GPUS(1);
  EXPECT_EQ(made_on(false, 1, false), kHealthy);
}

TEST_F(DdpOnDefaultStream, ControlNccl) {
  NEEDS_GPUS(1);
  EXPECT_EQ(made_on(false, 1, true), kHealthy);
}

TEST_F(DdpOnDefaultStream, ControlTwoRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(made_on(false, 2, true), kHealthy);
}

TEST_F(DdpOnDefaultStream, Reproduces) {
  NEEDS_GPUS(1);
  bool default_stream = false;
  TRIGGER(default_stream = true);
  const std::string seen = made_on(default_stream, 1, false);
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen, kDocumented, kHealthy);
}

// The stream alone does it: no warm-up is needed for the failure, as none prevents it.
TEST_F(DdpOnDefaultStream, ReproducesWithoutWarmUps) {
  NEEDS_GPUS(1);
  bool default_stream = false;
  TRIGGER(default_stream = true);
  const std::string seen = made_on(default_stream, 1, false, 0);
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpOnDefaultStream, ReproducesWithNccl) {
  NEEDS_GPUS(1);
  bool default_stream = false;
  TRIGGER(default_stream = true);
  const std::string seen = made_on(default_stream, 1, true);
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpOnDefaultStream, ReproducesOnTwoRanks) {
  NEEDS_GPUS(2);
  bool default_stream = false;
  TRIGGER(default_stream = true);
  const std::string seen = made_on(default_stream, 2, true);
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen, kDocumented, kHealthy);
}

TEST_F(DdpOnDefaultStream, FixMakeOnCapturingStream) {
  NEEDS_GPUS(1);
  bool default_stream = true;
  REMEDY(default_stream = false);
  EXPECT_EQ(made_on(default_stream, 1, true), kHealthy);
}

TEST_F(DdpOnDefaultStream, FixMakeOnCapturingStreamTwoRanks) {
  NEEDS_GPUS(2);
  bool default_stream = true;
  REMEDY(default_stream = false);
  EXPECT_EQ(made_on(default_stream, 2, true), kHealthy);
}
