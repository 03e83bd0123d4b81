// A NCCL collective in a branch of torch.cond cannot be captured behind another collective of the same graph.
//
// ProcessGroupNCCL runs a communicator's collectives on one stream. The first collective of a capture pulls this stream
// into the graph. A branch is a capture of its own, in a graph of its own, and its collective asks the same stream to
// wait for it: CUDA refuses to merge the two captures (902). Where the branch has the first collective of the graph,
// the capture is not refused there.
//
// Alone:  g++ cases/distributed/collective_in_conditional_body.cpp $(tools/libtorch --flags) -o collective_in_conditional_body

#include "fixtures/torch/conditional.h"
#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A NCCL collective in a branch of torch.cond fails behind another collective of the same graph",
    .sources = {{"upstream", "pytorch#191681"}},
    .documented = "NCCL in a conditional node's graph after the current graph has used it: cudaErrorStreamCaptureMerge",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "conditional nodes"},
    .features = {"NCCL", "conditional nodes"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes = {{"FixCollectivesOutsideOfBranches",
               "Call collectives outside of the branches, on every path, and let the branches choose what they send."}},
    .connections = 8,
};

class CollectiveInConditionalBody : public NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    if (!this_rank() || IsSkipped() || HasFatalFailure()) return;
    condition = at::ones({}, at::device(at::kCUDA).dtype(at::kBool));
    in = at::zeros({4}, at::kCUDA);
    first_result = at::zeros({4 * this_rank()->of}, at::kCUDA);
    result = at::zeros({4 * this_rank()->of}, at::kCUDA);
  }

  static void gather(const Nccl& nccl, at::Tensor& all, at::Tensor one) { nccl->_allgather_base(all, one)->wait(); }

  // A collective, and a branch that doubles, in itself or in what it sends.
  std::string captured(bool in_branch) {
    return on_ranks(1, [&](const Rank& rank) {
      const Nccl nccl = nccl_of(rank);
      at::Tensor sent = in.clone();
      gather(nccl, first_result, in);
      sent.copy_(in).mul_(2);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      nccl->waitForPendingWorks();
      graph->capture_begin();
      const Failure first = failure_of([&] {
        gather(nccl, first_result, in);
        sent.copy_(in);
        recapture::detail::begin_if(*graph, condition, recapture::detail::Has{});
        const Failure inside = failure_of([&] {
          sent.mul_(2);
          if (in_branch) gather(nccl, result, sent);
        });
        const Failure end = failure_of([&] { recapture::detail::end_conditional(*graph, recapture::detail::Has{}); });
        if (inside) TORCH_CHECK(false, inside.message);
        if (end) TORCH_CHECK(false, end.message);
        if (!in_branch) gather(nccl, result, sent);
      });
      const std::string status = capture_status(stream);
      const Failure end = failure_of([&] { graph->capture_end(); });
      if (first || end) return first ? first.text : seen(first, status, end);
      for (const int value : {5, 7}) {
        in.fill_(value);
        graph->replay();
        EXPECT_EQ(values(first_result), std::vector<double>(4, value));
        EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
      }
      return seen(first, status, end);
    });
  }

  at::Tensor condition, in, first_result, result;
};

constexpr char kHealthy[] = "ok > active > ok";

#define NEEDS_CONDITIONAL_FUNCTIONS()                                         \
  if (!recapture::detail::has_conditional<Graph>(recapture::detail::Has{})) { \
    NOT_APPLICABLE("this release has no function for conditional nodes");     \
  }

TEST_F(CollectiveInConditionalBody, Control) {
  NEEDS_GPUS(1);
  NEEDS_CONDITIONAL_FUNCTIONS();
  EXPECT_EQ(captured(/*in_branch=*/false), kHealthy);
}

TEST_F(CollectiveInConditionalBody, Reproduces) {
  NEEDS_GPUS(1);
  NEEDS_CONDITIONAL_FUNCTIONS();
  bool in_branch = false;
  TRIGGER(in_branch = true);
  REPRODUCES(captured(in_branch), "902", kHealthy);
}

TEST_F(CollectiveInConditionalBody, FixCollectivesOutsideOfBranches) {
  NEEDS_GPUS(1);
  NEEDS_CONDITIONAL_FUNCTIONS();
  bool in_branch = true;
  REMEDY(in_branch = false);
  EXPECT_EQ(captured(in_branch), kHealthy);
}
