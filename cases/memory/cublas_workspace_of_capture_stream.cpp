// A matrix product that is captured on a new stream puts the stream's cuBLAS workspace into the graph's pool.
//
// LibTorch up to 2.11 keeps one workspace for each pair of a cuBLAS handle and a stream. It is allocated at the first
// product and never freed. If the warm-up runs on one stream and the capture on another, the workspace is allocated in
// the capture, from the graph's private pool. It outlives the graph, 32 MiB on Hopper, and each further capture stream
// adds one. From 2.12 on, resetting a graph frees the workspaces of its stream; cublas_workspace_freed_by_reset shows
// what that broke. The tests ask the allocator how much memory remains.
//
// Alone:  g++ cases/memory/cublas_workspace_of_capture_stream.cpp $(tools/libtorch --flags) -o cublas_workspace_of_capture_stream

#include <string>

#include "fixtures/cuda/libraries.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A cuBLAS workspace that is allocated in a capture keeps the graph's memory after the graph is destroyed",
    .sources = {{"upstream", "pytorch#193832"},
                {"upstream", "pytorch#194109"},
                {"upstream", "pytorch#175276"},
                {"PyTorch documentation", "CUDA semantics: cuBLAS workspaces"}},
    .documented =
        "cuBLAS workspaces cached by handle and stream can outlive capture and pin allocations in a CUDA graph's "
        "private pool",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"cuBLAS", "memory pools", "several graphs", "side streams"},
    .features = {"cuBLAS"},
    .effect = Effect::Leaks,
    .fixes = {{"FixWarmUpOnTheCaptureStream",
               "Warm up on the stream that captures, and capture every graph on that one stream."},
              {"FixClearTheWorkspaces",
               "Call torch._C._cuda_clearCublasWorkspaces() once the graphs are gone, and not while one of them may be "
               "replayed.",
               "<2.12"}},
};

namespace {

constexpr int64_t kWorkspace = 1 << 20;  // Bytes at least; the state of a generator is less.
constexpr bool kStays = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12;

// Bytes that tensors and workspaces hold, cached blocks not counted.
int64_t allocated() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current; }

}  // namespace

class CublasWorkspaceOfCaptureStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!has_library("cublasCreate_v2", "libcublasLt.so")) GTEST_SKIP() << "cuBLAS is a stub here";
    x = at::ones({16, 16}, at::kCUDA);
    warm_up(stream);
  }

  // The handle is made by the first one.
  void warm_up(const c10::cuda::CUDAStream& on) {
    const c10::cuda::CUDAStreamGuard guard(on);
    at::mm(x, x);
    on.synchronize();
  }

  // Captures a product on `on`, replays it twice, and destroys the graph and its output. True if memory has stayed.
  bool leaves_memory(const c10::cuda::CUDAStream& on) {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const int64_t before = allocated();
    {
      const c10::cuda::CUDAStreamGuard guard(on);
      const auto captured = make_graph();
      captured->capture_begin();
      const at::Tensor product = at::mm(x, x);
      EXPECT_GT(captured_nodes(on), 0);
      captured->capture_end();
      for (const int value : {1, 2}) {
        x.fill_(value);
        captured->replay();
        EXPECT_EQ(values(product.view(-1)), std::vector<double>(256, 16.0 * value * value));
      }
      on.synchronize();
    }
    record("left", std::to_string(allocated() - before));
    return allocated() - before >= kWorkspace;
  }

  // Of captures on the three streams.
  std::string captures_that_leave_memory(const std::vector<c10::cuda::CUDAStream>& streams) {
    int count = 0;
    for (const auto& on : streams) count += leaves_memory(on) ? 1 : 0;
    return std::to_string(count) + " of " + std::to_string(streams.size());
  }

  static std::vector<c10::cuda::CUDAStream> three_streams() {
    return {another_stream(), another_stream(), another_stream()};
  }

  at::Tensor x;
};

TEST_F(CublasWorkspaceOfCaptureStream, Control) {
  EXPECT_EQ(captures_that_leave_memory({stream, stream, stream}), "0 of 3");
}

TEST_F(CublasWorkspaceOfCaptureStream, Reproduces) {
  std::vector<c10::cuda::CUDAStream> streams{stream, stream, stream};
  TRIGGER(streams = three_streams());
  REPRODUCES(captures_that_leave_memory(streams), "3 of 3", "0 of 3");
}

TEST_F(CublasWorkspaceOfCaptureStream, FixWarmUpOnTheCaptureStream) {
  if (!kStays) REMEDY_STAYS("this release keeps no workspace of a capture");
  const c10::cuda::CUDAStream on = another_stream();
  REMEDY(warm_up(on));
  EXPECT_EQ(captures_that_leave_memory({on, on, on}), "0 of 3");
}

TEST_F(CublasWorkspaceOfCaptureStream, FixClearTheWorkspaces) {
  if (!kStays) REMEDY_STAYS("this release keeps no workspace of a capture");
  warm_up(stream);
  at::cuda::clearCublasWorkspaces();
  const int64_t before = allocated();
  captures_that_leave_memory(three_streams());
  REMEDY(at::cuda::clearCublasWorkspaces());
  EXPECT_LT(allocated() - before, kWorkspace);
}
