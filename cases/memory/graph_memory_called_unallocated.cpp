// An out-of-memory error counts the memory of graphs as "reserved by PyTorch but unallocated".
//
// What a capture has freed stays in the graph's pool for its replays, and nothing else can have it. The error advises
// against fragmentation where much memory is unallocated. So a program whose graphs hold the memory is sent to
// max_split_size_mb or expandable_segments, which cannot help. From 2.4 on the error names what is allocated in private
// pools. The allocator's snapshot has the owner of each segment in all releases.
//
// Alone:  g++ cases/memory/graph_memory_called_unallocated.cpp $(tools/libtorch --flags) -o graph_memory_called_unallocated

#include <regex>
#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "An out-of-memory error counts the memory of graphs as unallocated, and advises against fragmentation",
    .sources = {{"upstream", "pytorch#121932"}, {"upstream", "pytorch#124673"}},
    .documented = "CUDA Graph memory appears as unallocated: a huge amount of unallocated memory but we still OOM",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools"},
    .fixes = {{"FixReadTheSnapshot",
               "Add up the segments of torch.cuda.memory_snapshot() whose segment_pool_id is not (0, 0): that is what "
               "the graphs hold."},
              {"FixResetTheGraph",
               "Call reset() on a graph that is no longer replayed: its memory is then returned and used again."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kHeld = 256 * kMiB;

// The MiB that an out-of-memory error calls unallocated, to the nearest 64.
std::string unallocated_in(const std::string& error) {
  std::smatch amount;
  if (!std::regex_search(error, amount, std::regex("([0-9.]+) (bytes|KiB|MiB|GiB) is reserved by PyTorch but"))) {
    return "not in the error: " + error;
  }
  const double mib = std::stod(amount[1]) * (amount[2] == "GiB" ? 1024 : amount[2] == "MiB" ? 1 : 0);
  return std::to_string(static_cast<int>(mib / 64 + 0.5) * 64) + " MiB unallocated";
}

int64_t held_by_graphs() {
  int64_t bytes = 0;
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot().segments) {
    const auto [graph, handle] = segment.owner_private_pool_id;
    if (graph != 0 || handle != 0) bytes += static_cast<int64_t>(segment.total_size);
  }
  return bytes;
}

}  // namespace

class GraphMemoryCalledUnallocated : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::kCUDA);
    at::zeros({1}, at::kCUDA).add_(data);
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  // A graph whose only tensor is freed again in the capture.
  void capture() {
    graph->capture_begin();
    at::zeros({kHeld}, at::device(at::kCUDA).dtype(at::kByte)).add_(1);
    data.add_(1);
    graph->capture_end();
    graph->replay();
    EXPECT_EQ(values(data), std::vector<double>(1, 4));
  }

  // What the allocator says when it has no memory: nothing has room for 64 TiB.
  std::string error_of_too_much() {
    const Failure error = failure_of([] { at::empty({int64_t{1} << 46}, at::device(at::kCUDA).dtype(at::kByte)); });
    EXPECT_EQ(error.text, "oom");
    return error.message;
  }

  at::Tensor data;
};

// Cached memory that no graph holds is returned before the allocator gives up.
TEST_F(GraphMemoryCalledUnallocated, Control) {
  at::zeros({kHeld}, at::device(at::kCUDA).dtype(at::kByte)).add_(1);
  EXPECT_EQ(unallocated_in(error_of_too_much()), "0 MiB unallocated");
}

TEST_F(GraphMemoryCalledUnallocated, Reproduces) {
  TRIGGER(capture());
  REPRODUCES(unallocated_in(error_of_too_much()), "256 MiB unallocated", "0 MiB unallocated");
}

TEST_F(GraphMemoryCalledUnallocated, FixReadTheSnapshot) {
  capture();
  int64_t held = 0;
  REMEDY(held = held_by_graphs());
  EXPECT_EQ(held / (64 * kMiB), kHeld / (64 * kMiB));
}

TEST_F(GraphMemoryCalledUnallocated, FixResetTheGraph) {
  capture();
  REMEDY(graph->reset());
  error_of_too_much();
  EXPECT_EQ(held_by_graphs(), 0);
}
