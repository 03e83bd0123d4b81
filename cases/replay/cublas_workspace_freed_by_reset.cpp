// reset() of one graph frees the cuBLAS workspace that another graph, captured on the same stream, goes on using.
//
// LibTorch kept one workspace for each pair of a cuBLAS handle and a stream, and a captured product has its address.
// From 2.12 on reset(), and the destructor, dropped the workspaces of the graph's stream, whoever else had them: the
// allocator hands the block out again, and the other graph's next replay writes into it; once it was given back to the
// system, the replay ends in an illegal access. Before, workspaces stayed for ever. Whether the product in question
// writes to its workspace is up to cuBLAS, so the first test asks the allocator alone; the other one has the report's
// product, the gradient of a weight over 32768 rows.
//
// Alone:  g++ cases/replay/cublas_workspace_freed_by_reset.cpp $(tools/libtorch --flags) -o cublas_workspace_freed_by_reset

#include "fixtures/cuda/libraries.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Resetting a graph frees the cuBLAS workspace of another graph that was captured on the same stream",
    .sources = {{"upstream", "pytorch#193402"},
                {"upstream", "pytorch#175276"},
                {"upstream", "pytorch#194311"},
                {"upstream", "vllm-omni#6587"}},
    .documented =
        "Resetting one graph clears workspace still referenced by another live graph: illegal address on replay",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "cuBLAS", "several graphs", "graphed callables"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixStreamOfItsOwn", "Capture graphs that are reset at different times on streams of their own."},
              {"FixKeepTheOtherGraph",
               "Keep all graphs that were captured on a stream until none of them is replayed any more."}},
};

namespace {

constexpr int64_t kRows = 32768, kWidth = 640;
constexpr bool kFreed = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 12 && TORCH_VERSION_MINOR <= 14;

// Bytes that tensors hold, cached blocks not counted.
int64_t allocated() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current; }

}  // namespace

class CublasWorkspaceFreedByReset : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!has_library("cublasCreate_v2", "libcublasLt.so")) GTEST_SKIP() << "cuBLAS is a stub here";
    x = at::ones({kRows, kWidth}, at::device(at::kCUDA).dtype(at::kBFloat16));
    small = at::ones({16, 16}, x.options());
    other = make_graph();
    at::mm(x.t(), x);  // Makes the handle, and the stream's workspace.
    at::mm(small, small);
    stream.synchronize();
  }

  // The graph that stays, and another one on `on` that is reset. Returns the bytes that the reset frees.
  int64_t freed_by_reset(const c10::cuda::CUDAStream& on, bool reset) {
    graph->capture_begin();
    y = at::mm(x.t(), x);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    {
      const c10::cuda::CUDAStreamGuard guard(on);
      other->capture_begin();
      at::mm(small, small);
      EXPECT_GT(captured_nodes(on), 0);
      other->capture_end();
      other->replay();
      on.synchronize();
    }
    const int64_t before = allocated();
    if (reset) other->reset();
    record("freed", std::to_string(before - allocated()));
    return before - allocated();
  }

  // Of equal numbers; to the precision of the sums.
  void expect_product_of(double value) {
    const double right = value * value * kRows;
    EXPECT_NEAR(values(y.slice(0, 0, 1).slice(1, 0, 1))[0], right, right / 100);
  }

  // Whether three replays write to memory that was allocated after the reset, and what they compute.
  std::string three_replays(int64_t freed) {
    constexpr int64_t kAtLeast = 32 << 20;  // A workspace on Hopper.
    const at::Tensor next_owner = at::zeros({std::max(freed, kAtLeast)}, at::device(at::kCUDA).dtype(at::kByte));
    for (const int value : {1, 2, 4}) {
      x.fill_(value);
      graph->replay();
      expect_product_of(value);
    }
    return values(next_owner.any())[0] != 0 ? "overwritten" : "intact";
  }

  std::unique_ptr<Graph> other;
  at::Tensor x, small, y;
};

TEST_F(CublasWorkspaceFreedByReset, ControlEager) {
  for (const int value : {1, 2, 4}) {
    x.fill_(value);
    y = at::mm(x.t(), x);
    expect_product_of(value);
  }
}

TEST_F(CublasWorkspaceFreedByReset, Control) {
  EXPECT_EQ(freed_by_reset(stream, /*reset=*/false), 0);
  EXPECT_EQ(three_replays(0), "intact");
}

TEST_F(CublasWorkspaceFreedByReset, Reproduces) {
  REPRODUCES(freed_by_reset(stream, trigger_on()) > 0 ? "freed" : "kept", "freed", "kept");
}

TEST_F(CublasWorkspaceFreedByReset, ReproducesForeignMemoryOverwritten) {
  REPRODUCES(three_replays(freed_by_reset(stream, trigger_on())), "overwritten", "intact");
}

TEST_F(CublasWorkspaceFreedByReset, FixStreamOfItsOwn) {
  if (!kFreed) REMEDY_STAYS("this release keeps the workspace in any case");
  const c10::cuda::CUDAStream own = another_stream();
  {
    const c10::cuda::CUDAStreamGuard guard(own);
    at::mm(small, small);
    own.synchronize();
  }
  c10::cuda::CUDAStream on = stream;
  REMEDY(on = own);
  EXPECT_EQ(three_replays(freed_by_reset(on, /*reset=*/true)), "intact");
}

TEST_F(CublasWorkspaceFreedByReset, FixKeepTheOtherGraph) {
  if (!kFreed) REMEDY_STAYS("this release keeps the workspace in any case");
  bool reset = true;
  REMEDY(reset = false);
  const int64_t freed = freed_by_reset(stream, reset);
  EXPECT_EQ(freed, 0);
  EXPECT_EQ(three_replays(freed), "intact");
}
