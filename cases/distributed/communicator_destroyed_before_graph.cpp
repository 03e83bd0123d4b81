// ncclCommDestroy() waits for the graphs that have captured collectives of the communicator, for ever if they stay.
//
// NCCL's own functions on two ranks: a communicator, an all-reduce captured into a graph and replayed, and the
// communicator destroyed while the graph is still there. A graph that is destroyed first holds nothing back. For one
// rank NCCL launches nothing that the graph could hold, so this needs two GPUs. The document says that it is so from
// NCCL 2.26 on; the loop that waits is in the sources of older ones too.
//
// Alone:  g++ cases/distributed/communicator_destroyed_before_graph.cpp $(tools/libtorch --flags) -o communicator_destroyed_before_graph

#include <cstring>
#include <vector>

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A NCCL communicator that is destroyed before the graphs with its collectives hangs",
    .sources = {{"CUDA graph guide", "Process Hang: NCCL Communicator Destruction with Active CUDA Graphs"}},
    .documented = "NCCL 2.26 and newer: destroying a communicator waits for the graphs that hold it",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::Hangs,
    .fixes = {{"FixDestroyTheGraphFirst",
               "Destroy every CUDA graph with collectives of a process group (graph.reset()) before "
               "destroy_process_group()."}},
    .connections = 8,
};

constexpr double kPatience_s = 40;  // The start and the first collective take some ten of them.

class CommunicatorDestroyedBeforeGraph : public NcclTest {
 protected:
  // Captures an all-reduce, replays it twice, and destroys the communicator, before or after the graph.
  std::string destroyed(const Rank& rank, bool graph_first) {
    const auto check = [](ncclResult_t result) { EXPECT_EQ(result, ncclSuccess); };
    const auto store = store_of(rank);
    ncclUniqueId id;
    if (rank.number == 0) {
      check(nccl_function<decltype(ncclGetUniqueId)>("ncclGetUniqueId")(&id));
      const char* bytes = reinterpret_cast<const char*>(&id);
      store->set("id", std::vector<uint8_t>(bytes, bytes + sizeof id));
    }
    const std::vector<uint8_t> bytes = store->get("id");
    std::memcpy(&id, bytes.data(), sizeof id);
    ncclComm_t comm = nullptr;
    check(nccl_function<decltype(ncclCommInitRank)>("ncclCommInitRank")(&comm, rank.of, id, rank.number));
    at::Tensor in = at::ones({1024}, at::kCUDA), out = at::zeros({1024}, at::kCUDA);
    const auto all_reduce = [&] {
      check(nccl_function<decltype(ncclAllReduce)>("ncclAllReduce")(in.data_ptr(), out.data_ptr(), 1024, ncclFloat,
                                                                    ncclSum, comm, stream));
    };
    all_reduce();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    all_reduce();
    graph->capture_end();
    for (const int value : {3, 5}) {
      in.fill_(value + rank.number);
      out.fill_(-1);
      graph->replay();
      EXPECT_EQ(values(out), std::vector<double>(1024, 2.0 * value + 1));
    }
    if (graph_first) graph.reset();
    check(nccl_function<decltype(ncclCommDestroy)>("ncclCommDestroy")(comm));
    return "destroyed";
  }
};

TEST_F(CommunicatorDestroyedBeforeGraph, Control) {
  NEEDS_GPUS(2);
  EXPECT_EQ(on_ranks(
                2, [&](const Rank& rank) { return destroyed(rank, true); }, {}, kPatience_s),
            "destroyed");
}

TEST_F(CommunicatorDestroyedBeforeGraph, Reproduces) {
  NEEDS_GPUS(2);
  const std::string seen = on_ranks(
      2,
      [&](const Rank& rank) {
        bool graph_first = true;
        TRIGGER(graph_first = false);
        return destroyed(rank, graph_first);
      },
      {}, kPatience_s);
  REPRODUCES(seen, "did not come back: rank 0, rank 1", "destroyed");
}

TEST_F(CommunicatorDestroyedBeforeGraph, FixDestroyTheGraphFirst) {
  NEEDS_GPUS(2);
  EXPECT_EQ(on_ranks(
                2,
                [&](const Rank& rank) {
                  bool graph_first = false;
                  REMEDY(graph_first = true);
                  return destroyed(rank, graph_first);
                },
                {}, kPatience_s),
            "destroyed");
}
