// With graph_capture_record_stream_reuse, a block that record_stream() was called on is not given back to the pool when
// its capture ends.
//
// With the option the allocator reuses such a block within a capture. What it has not reused by the end of the capture
// stayed put aside for good: a second graph of the same pool could not use it, nor could a third. Without
// record_stream() the graphs take turns in one block. Later releases give deferred blocks back as the capture ends.
//
// Alone:  g++ cases/memory/record_stream_kept_at_capture_end.cpp $(tools/libtorch --flags) -o record_stream_kept_at_capture_end

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "With graph_capture_record_stream_reuse, a block with record_stream() is lost as its capture ends",
    .sources = {{"upstream", "pytorch#175817"}},
    .documented =
        "record_stream-deferred blocks are not reclaimed at the capture's end: a second graph cannot reuse them",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "memory pools", "several graphs"},
    .features = {"side streams"},
    .effect = Effect::Leaks,
    .fixes = {{"FixKeepUntilTheJoin",
               "Instead of record_stream(), keep the tensor until the capturing stream has waited for the other one."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr const char* kSettings = "graph_capture_record_stream_reuse:True";
constexpr bool kHasOption = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class RecordStreamKeptAtCaptureEnd : public GpuTest {
 protected:
  void SetUp() override {
    if (!kHasOption) NOT_APPLICABLE("this release has no such option");
    setenv("PYTORCH_CUDA_ALLOC_CONF", kSettings, 1);
    setenv("PYTORCH_ALLOC_CONF", kSettings, 1);
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, bytes);
    data.add(data);
    stream.synchronize();
    before = reserved();
  }

  // Three graphs of one pool, each with 64 MiB that another stream works on.
  void capture(bool record) {
    const c10::cuda::CUDAStream side = another_stream();
    for (int i = 0; i < 3; ++i) {
      graphs.push_back(make_graph());
      graphs[i]->capture_begin(i > 0 ? graphs[0]->pool() : Pool{0, 0});
      results.push_back(at::zeros({4}, bytes));
      {
        const at::Tensor block = at::empty({64 * kMiB}, bytes);
        at::cuda::CUDAEvent fork, join;
        fork.record(stream);
        fork.block(side);
        {
          const c10::cuda::CUDAStreamGuard guard(side);
          block.slice(0, 0, 4).copy_(data);
          if (record) block.record_stream(side);
        }
        join.record(side);
        join.block(stream);
        results[i].add_(block.slice(0, 0, 4), 2);
      }
      EXPECT_GT(captured_nodes(stream), 0);
      graphs[i]->capture_end();
    }
  }

  // To the nearest 16 MiB: small segments are not counted.
  std::string more() const { return text_of((reserved() - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB"; }

  void check_replays() {
    for (size_t i = 0; i < graphs.size(); ++i) {
      for (const int value : {5, 7}) {
        data.fill_(value);
        graphs[i]->replay();
        EXPECT_EQ(values(results[i]), std::vector<double>(4, 2 * value));
      }
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<at::Tensor> results;
  at::Tensor data;
  int64_t before = 0;
};

TEST_F(RecordStreamKeptAtCaptureEnd, Control) {
  capture(/*record=*/false);
  EXPECT_EQ(more(), "64 MiB");
  check_replays();
}

TEST_F(RecordStreamKeptAtCaptureEnd, Reproduces) {
  capture(trigger_on());
  check_replays();
  REPRODUCES(more(), "192 MiB", "64 MiB");
}

TEST_F(RecordStreamKeptAtCaptureEnd, FixKeepUntilTheJoin) {
  bool record = true;
  REMEDY(record = false);
  capture(record);
  EXPECT_EQ(more(), "64 MiB");
  check_replays();
}
