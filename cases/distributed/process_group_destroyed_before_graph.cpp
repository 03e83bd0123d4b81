// In Python, destroy_process_group() hangs while a graph with the group's collectives is there.
//
// The document's program on two ranks, each with a Python of its own: an all-reduce captured, replayed, and the group
// destroyed before the graph. LibTorch destroys the group's communicator, and NCCL waits for the graph, as
// communicator_destroyed_before_graph has it call by call. The group finds itself by a file instead of torchrun. That
// the program hangs at its exit as well, where nothing destroys the group, is left out: a test's process leaves without
// destructors.
//
// Alone:  g++ cases/distributed/process_group_destroyed_before_graph.cpp $(tools/libtorch --flags) -o process_group_destroyed_before_graph

#include "fixtures/python/python_programs.h"
#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, destroy_process_group() hangs while a graph holds the group's collectives",
    .sources = {{"CUDA graph guide", "Process Hang: NCCL Communicator Destruction with Active CUDA Graphs"},
                {"capture failures", "NCCL Watchdog Thread"}},
    .documented = "Process hangs indefinitely during destroy_process_group()",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "ranks python",
    .deadline_s = 150,
    .effect = Effect::Hangs,
    .fixes = {{"FixResetTheGraphFirst",
               "Call graph.reset() on every CUDA graph with collectives before destroy_process_group()."},
              {"FixDeleteTheGraphFirst",
               "Delete every CUDA graph with collectives (del graph) before destroy_process_group()."}},
    .connections = 8,
};

class ProcessGroupDestroyedBeforeGraph : public PythonProgramTest {
 protected:
  void SetUp() override {
    if (!this_rank()) return PythonTest::SetUp();  // The test's own process touches no GPU.
    ASSERT_EQ(multicast_on(), "");
    PythonProgramTest::SetUp();
  }

  // `before` runs before the group is destroyed, unless it is left out.
  std::string destroyed(const std::function<std::string()>& before) {
    return on_ranks(
        2,
        [&](const Rank& rank) {
          return run(R"py(
import torch
torch.cuda.set_device({rank})
store = torch.distributed.FileStore("{folder}/store", 2)
torch.distributed.init_process_group(backend="nccl", store=store, rank={rank}, world_size=2)
torch.distributed.barrier()
x = torch.randn((32, 128), device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.distributed.all_reduce(x)
seen = []
for value in (3, 5):
    x.fill_(value + {rank})
    graph.replay()
    seen += x.unique().tolist()
{before}
torch.distributed.destroy_process_group()
)py",
                     {{"rank", std::to_string(rank.number)}, {"folder", rank.folder}, {"before", before()}});
        },
        {{"NCCL_SOCKET_IFNAME", "lo"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}}, 60);
  }
};

constexpr char kHealthy[] = "[7.0, 11.0]";

TEST_F(ProcessGroupDestroyedBeforeGraph, Control) {
  NEEDS_GPUS(2);
  EXPECT_EQ(destroyed([] { return "graph.reset()"; }), kHealthy);
}

TEST_F(ProcessGroupDestroyedBeforeGraph, Reproduces) {
  NEEDS_GPUS(2);
  const std::string seen = destroyed([] {
    std::string before = "graph.reset()";
    TRIGGER(before = "pass");
    return before;
  });
  REPRODUCES(seen, "did not come back: rank 0, rank 1", kHealthy);
}

TEST_F(ProcessGroupDestroyedBeforeGraph, FixResetTheGraphFirst) {
  NEEDS_GPUS(2);
  EXPECT_EQ(destroyed([] {
              std::string before = "pass";
              REMEDY(before = "graph.reset()");
              return before;
            }),
            kHealthy);
}

TEST_F(ProcessGroupDestroyedBeforeGraph, FixDeleteTheGraphFirst) {
  NEEDS_GPUS(2);
  EXPECT_EQ(destroyed([] {
              std::string before = "pass";
              REMEDY(before = "del graph");
              return before;
            }),
            kHealthy);
}
