// Ranks that replay different graphs hang, or sum values that do not belong together.
//
// A captured collective meets whatever collective of the same communicator the other ranks launch next, as an eager one
// does, and nothing compares them. So a rank that chooses its graph by its own batch size meets another's wrong layer:
// if the graphs have a different number of collectives, the rank with more of them waits. Where the other goes on with
// its next step, that step's sum becomes one of two different layers, without an error. The same holds for a rank that
// captures a collective while another runs it: the capture launches nothing. Here a small graph has one all-reduce and
// a large graph two, each of a buffer of its own.
//
// Alone:  g++ cases/distributed/ranks_choose_different_graphs.cpp $(tools/libtorch --flags) -o ranks_choose_different_graphs

#include <algorithm>
#include <cmath>

#include "fixtures/cuda/limit.h"
#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Ranks that replay different graphs hang, or get sums of different layers",
    .sources = {{"NCCL user guide", "Using NCCL with CUDA Graphs"},
                {"upstream", "vllm#25906"},
                {"upstream", "TensorRT-LLM#14986"}},
    .documented =
        "The launch of a graph containing a captured NCCL operation is considered collective, and each of those ranks "
        "must be using the graph derived from that collective capture.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP", "several graphs"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::Hangs,
    .effects = {{"ReproducesWrongSums", Effect::SilentlyWrong}},
    .fixes = {{"FixAgreeOnTheSize",
               "Agree on the padded size before each step, with an all_reduce of the largest, and choose the graph by "
               "what all ranks agreed on."},
              {"FixCaptureOnAllRanks",
               "Capture every graph on all ranks in the same order before the first request, behind a barrier, and not "
               "when a rank first needs it."}},
    .connections = 8,
};

class RanksChooseDifferentGraphs : public NcclTest {
 protected:
  static constexpr std::chrono::seconds kLimit{15};
  static constexpr double kPatience_s = 60;
  static constexpr int kSmall = 8, kLarge = 16;  // Rows.

  void all_reduce(at::Tensor& tensor, c10d::ReduceOp operation = c10d::ReduceOp::SUM) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    nccl->allreduce(tensors, options)->wait();
  }

  // The layer `times` x, summed over all ranks.
  void layer(int times, at::Tensor& sum) {
    sum.copy_(x * times);
    all_reduce(sum);
  }

  void capture(const std::unique_ptr<Graph>& into, const std::function<void()>& body) {
    into->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    body();
    into->capture_end();
  }

  void connect(const Rank& rank) {
    nccl = nccl_of(rank);
    x = at::full({8}, 4 + rank.number, at::kCUDA);
    first = at::zeros({8}, at::kCUDA), second = at::zeros({8}, at::kCUDA);
    layer(1, first);  // Of the same size, so that nothing is left to be connected.
    settle();
  }

  void settle() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    nccl->waitForPendingWorks();
  }

  void capture_both() {
    capture(graph, [&] { layer(1, first); });
    capture(large, [&] {
      layer(1, first);
      layer(10, second);
    });
  }

  const std::unique_ptr<Graph>& graph_of(int rows) const { return rows > kSmall ? large : graph; }

  static std::string number_in(const at::Tensor& tensor) { return std::to_string(std::lround(values(tensor)[0])); }

  // What all ranks have: the most rows of any.
  int agreed(int rows) {
    at::Tensor most = at::full({1}, rows, at::kCUDA);
    all_reduce(most, c10d::ReduceOp::MAX);
    return static_cast<int>(values(most)[0]);
  }

  std::string in_ranks(const std::function<std::string(const Rank&)>& body) {
    return on_ranks(
        2,
        [&](const Rank& rank) {
          large = make_graph();
          connect(rank);
          return body(rank);
        },
        {}, kPatience_s);
  }

  Nccl nccl;
  at::Tensor x, first, second;
  std::unique_ptr<Graph> large;  // `graph` is the small one.
};

// Rank 0 has four times 1 and rank 1 five times, so the first layer's sum is 9 and the second's 90.
constexpr char kSums[] = "9 90";

TEST_F(RanksChooseDifferentGraphs, Control) {
  NEEDS_GPUS(2);
  EXPECT_EQ(in_ranks([&](const Rank&) {
              capture_both();
              large->replay();
              return number_in(first) + " " + number_in(second);
            }),
            kSums);
}

TEST_F(RanksChooseDifferentGraphs, Reproduces) {
  NEEDS_GPUS(2);
  const std::string seen = in_ranks([&](const Rank& rank) -> std::string {
    capture_both();
    int rows = kLarge;
    TRIGGER(rows = rank.number == 0 ? kSmall : kLarge);
    graph_of(rows)->replay();
    return ends_within(kLimit, stream) ? "ended" : "still waits";
  });
  REPRODUCES(seen, "rank 0: ended; rank 1: still waits", "ended");
}

// The next step of the rank with the small graph ends the wait of the other.
TEST_F(RanksChooseDifferentGraphs, ReproducesWrongSums) {
  NEEDS_GPUS(2);
  const std::string seen = in_ranks([&](const Rank& rank) -> std::string {
    capture_both();
    bool replays_small = false;
    TRIGGER(replays_small = rank.number == 0);
    if (!replays_small) {
      large->replay();
      return number_in(first) + " " + number_in(second);
    }
    graph->replay();
    const std::string step = number_in(first);
    graph->replay();
    return step + " " + number_in(first);
  });
  REPRODUCES(seen, "9 54", kSums);  // 54: rank 0's first layer, 4, and rank 1's second, 50.
}

TEST_F(RanksChooseDifferentGraphs, ReproducesOneCaptures) {
  NEEDS_GPUS(2);
  const std::string seen = in_ranks([&](const Rank& rank) -> std::string {
    bool captures = false;
    TRIGGER(captures = rank.number == 0);
    if (captures) {
      capture(graph, [&] { layer(1, first); });
      return "captured";
    }
    layer(1, first);
    return ends_within(kLimit, stream) ? number_in(first) : "still waits";
  });
  REPRODUCES(seen, "rank 0: captured; rank 1: still waits", "9");
}

TEST_F(RanksChooseDifferentGraphs, FixAgreeOnTheSize) {
  NEEDS_GPUS(2);
  EXPECT_EQ(in_ranks([&](const Rank& rank) -> std::string {
              capture_both();
              for (const int value : {5, 7}) {
                int rows = rank.number == 0 ? kSmall : kLarge;
                REMEDY(rows = agreed(rows));
                x.fill_(value + rank.number);
                graph_of(rows)->replay();
                if (!ends_within(kLimit, stream)) return "still waits";
                EXPECT_EQ(values(first), std::vector<double>(8, 2.0 * value + 1));
                EXPECT_EQ(values(second), std::vector<double>(8, 20.0 * value + 10));
              }
              return "ended";
            }),
            "ended");
}

TEST_F(RanksChooseDifferentGraphs, FixCaptureOnAllRanks) {
  NEEDS_GPUS(2);
  EXPECT_EQ(in_ranks([&](const Rank& rank) -> std::string {
              bool captures = rank.number == 0;
              REMEDY(nccl->barrier()->wait(); settle(); captures = true);
              if (!captures) {
                layer(1, first);
                return ends_within(kLimit, stream) ? "ended" : "still waits";
              }
              capture(graph, [&] { layer(1, first); });
              for (const int value : {5, 7}) {
                REMEDY(x.fill_(value + rank.number); graph->replay();
                       EXPECT_EQ(values(first), std::vector<double>(8, 2.0 * value + 1)));
              }
              return "ended";
            }),
            "ended");
}
