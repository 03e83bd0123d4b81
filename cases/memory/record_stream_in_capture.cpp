// A tensor with record_stream() in a capture occupies its memory to the end of the capture, though its stream was
// joined long before.
//
// Eager code frees such a block once an event of the other stream has passed. In a capture no event ever passes, so the
// allocator puts the block aside, and the next request takes new memory. From 2.9 on the option
// graph_capture_record_stream_reuse lets it look at the graph instead: a block may be used again where all work that
// comes later depends on the work that used it. 2.9 sees that at the next join alone, so that two blocks take turns;
// from 2.10 on one is enough.
//
// Alone:  g++ cases/memory/record_stream_in_capture.cpp $(tools/libtorch --flags) -o record_stream_in_capture

#include <cstdlib>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Memory of a tensor that record_stream() was called on is not used again within a capture",
    .sources = {{"CUDA graph guide", "Memory Issues"}, {"upstream", "pytorch#155398"}, {"upstream", "pytorch#158352"}},
    .documented = "record_stream in a capture defers the block's reuse: 8 instead of 4 GB",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "memory pools"},
    .features = {"side streams"},
    .effect = Effect::Leaks,
    .fixes =
        {{"FixKeepUntilTheJoin",
          "Instead of record_stream(), keep the tensor until the capturing stream has waited for the other one."},
         {"FixReuseOption",
          "Set PYTORCH_CUDA_ALLOC_CONF=graph_capture_record_stream_reuse:True before the first allocation (2.9 on; "
          "2.9 takes two blocks where 2.10 takes one).",
          ">=2.9"}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr const char* kSettings = "graph_capture_record_stream_reuse:True";
constexpr bool kHasOption = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 9;

int64_t reserved() { return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current; }

}  // namespace

class RecordStreamInCapture : public GpuTest {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    if (test == "FixReuseOption") {
      if (!kHasOption) NOT_APPLICABLE("this release has no such option");
      REMEDY(setenv("PYTORCH_CUDA_ALLOC_CONF", kSettings, 1), setenv("PYTORCH_ALLOC_CONF", kSettings, 1));
    }
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, bytes);
    before = reserved();
  }

  // Four times a block that another stream works on, and that dies when that stream has been joined.
  void capture(bool record) {
    const c10::cuda::CUDAStream side = another_stream();
    graph->capture_begin();
    result = at::zeros({4}, bytes);
    for (int i = 0; i < 4; ++i) {
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
      result.add_(block.slice(0, 0, 4));
    }
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // To the nearest 16 MiB: small segments are not counted.
  std::string more() const { return text_of((reserved() - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB"; }

  void expect_four_times() {
    for (const int value : {5, 7, 9}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 4 * value));
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data, result;
  int64_t before = 0;
};

TEST_F(RecordStreamInCapture, Control) {
  capture(/*record=*/false);
  EXPECT_EQ(more(), "64 MiB");
  expect_four_times();
}

TEST_F(RecordStreamInCapture, Reproduces) {
  capture(trigger_on());
  REPRODUCES(more(), "256 MiB", "64 MiB");
}

TEST_F(RecordStreamInCapture, FixKeepUntilTheJoin) {
  bool record = true;
  REMEDY(record = false);
  capture(record);
  EXPECT_EQ(more(), "64 MiB");
  expect_four_times();
}

TEST_F(RecordStreamInCapture, FixReuseOption) {
  capture(/*record=*/true);
  EXPECT_EQ(more(), "64 MiB");
  expect_four_times();
}
