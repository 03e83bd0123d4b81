// A NCCL collective that is captured on a buffer of several expandable segments may read and write elsewhere.
//
// In a capture NCCL registers the buffers of its collectives, so that the other GPU writes into them directly. Of a
// buffer that consists of several pieces of memory at consecutive addresses, as PyTorch's expandable segments of 20 MiB
// are, NCCL 2.23 to 2.27 registers the first piece alone, and what the other GPU writes behind it goes astray.
// NCCL 2.28 leaves such a buffer unregistered, 2.29 registers all pieces, and before 2.23 nothing is registered without
// NVLink multicast, which is off here. Each rank says whether NCCL registered a buffer. With one rank NCCL only copies.
//
// Alone:  g++ cases/distributed/collective_on_expandable_segments.cpp $(tools/libtorch --flags) -o collective_on_expandable_segments

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured NCCL collective on a buffer of several expandable segments accesses illegal memory",
    .sources = {{"Megatron Core user guide", "CUDA Graph: Chunk granularity"},
                {"upstream", "Megatron-LM#5474"},
                {"upstream", "torchtitan#3306"},
                {"NCCL source", "src/transport/p2p.cc: ncclIpcGraphRegisterBuffer()"}},
    .documented =
        "Setting NCCL_GRAPH_REGISTER=0 to avoid illegal memory access when using CUDA Graph with "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP", "memory pools", "expandable segments"},
    .features = {"NCCL", "expandable segments"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes =
        {{"FixNoRegistration",
          "Set NCCL_GRAPH_REGISTER=0 before NCCL starts where PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True "
          "and NCCL is older than 2.28."}},
    .connections = 8,
};

class CollectiveOnExpandableSegments : public NcclTest {
 protected:
  using Environment = std::map<std::string, std::string>;
  static constexpr double kPatience_s = 60;  // Instead of the error, both GPUs may wait for each other.

  static Environment expandable() {
    return {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
            {"PYTORCH_ALLOC_CONF", "expandable_segments:True"}};
  }

  // Captures an all-gather of `count` floats from each of two ranks, and replays it three times.
  std::string gathered(int64_t count, Environment variables) {
    variables.insert({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "REG"}});
    return on_ranks(
        2,
        [&](const Rank& rank) {
          const std::string log = rank.folder + "/nccl." + std::to_string(rank.number);
          setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
          const Nccl nccl = nccl_of(rank);
          at::Tensor in = at::zeros({count}, at::kCUDA), all = at::zeros({rank.of * count}, at::kCUDA);
          nccl->_allgather_base(all, in)->wait();
          EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
          nccl->waitForPendingWorks();
          graph->capture_begin();
          const Failure first = failure_of([&] { nccl->_allgather_base(all, in)->wait(); });
          const std::string status = capture_status(stream);
          const Failure end = failure_of([&] { graph->capture_end(); });
          record("registered", has_line(log, "IPC register buffer") ? "yes" : "no");
          if (first || end) return seen(first, status, end);
          return seen(first, status, end) + ", replays " + replayed(rank, in, all);
        },
        variables, kPatience_s);
  }

  std::string replayed(const Rank& rank, const at::Tensor& in, const at::Tensor& all) {
    bool right = true;
    const Failure failure = failure_of([&] {
      for (const int value : {5, 7, 11}) {
        in.fill_(value + rank.number);
        all.fill_(-1);
        graph->replay();
        for (int i = 0; i < rank.of; ++i) {
          right = right && all.narrow(0, i * in.numel(), in.numel()).eq(value + i).all().item<bool>();
        }
      }
    });
    return failure ? failure.text : right ? "ok" : "wrong values";
  }

  static bool has_line(const std::string& path, const std::string& part) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find(part) != std::string::npos;
  }
};

constexpr int64_t kSeveral = 16 << 20, kOne = 1 << 20;  // Floats: 128 MiB are gathered, and 8 MiB.
constexpr char kHealthy[] = "ok > active > ok, replays ok";

TEST_F(CollectiveOnExpandableSegments, Control) {
  NEEDS_GPUS(2);
  EXPECT_EQ(gathered(kSeveral, {}), kHealthy);
}

// A buffer within one segment, which NCCL may register.
TEST_F(CollectiveOnExpandableSegments, ControlOneSegment) {
  NEEDS_GPUS(2);
  EXPECT_EQ(gathered(kOne, expandable()), kHealthy);
}

TEST_F(CollectiveOnExpandableSegments, Reproduces) {
  NEEDS_GPUS(2);
  Environment variables;
  TRIGGER(variables = expandable());
  REPRODUCES(gathered(kSeveral, variables), "ok > active > ok, replays 700", kHealthy);
}

TEST_F(CollectiveOnExpandableSegments, FixNoRegistration) {
  NEEDS_GPUS(2);
  Environment variables = expandable();
  REMEDY(variables["NCCL_GRAPH_REGISTER"] = "0");
  EXPECT_EQ(gathered(kSeveral, variables), kHealthy);
}
