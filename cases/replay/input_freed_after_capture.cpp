// A replay reads an input's memory after the input was freed: what its next owner wrote, or memory that is unmapped.
//
// A graph has the address of a tensor that was made before the capture, and nothing keeps the tensor. Once it dies, the
// allocator gives its block to the next tensor of the size, whose values every later replay computes with. If the cache
// was emptied in between, the address is mapped no more, and the replay ends in an illegal access that takes the
// context with it. LibTorch's C++ has no check; Python's has one from 2.13 on (dead_input_in_python_capture).
//
// Alone:  g++ cases/replay/input_freed_after_capture.cpp $(tools/libtorch --flags) -o input_freed_after_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A replay reads the memory of an input that has been freed, whoever owns it by then",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"CUDA graph guide", "Memory Issues"},
                {"upstream", "TensorRT-LLM#16290"}},
    .documented = "the block is used again: the replay reads foreign data; or an illegal memory access",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesAfterEmptyCache", Effect::Raises}},
    .fixes =
        {{"FixKeepTheInput",
          "Keep every tensor that the capture read for as long as the graph may be replayed, and copy_() into it."}},
};

namespace {
constexpr int64_t kCount = 16 << 20;  // 64 MiB of floats, which have a segment of their own.
}  // namespace

class InputFreedAfterCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({kCount}, 3.0, at::kCUDA);
  }

  void capture() {
    graph->capture_begin();
    y = x.slice(0, kCount - 1) * 2;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  std::vector<double> three_replays(const at::Tensor& written) {
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      written.fill_(value);
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  at::Tensor x, y;
};

// Without a graph nothing reads the input once it has gone.
TEST_F(InputFreedAfterCapture, ControlEager) {
  y = x.slice(0, kCount - 1) * 2;
  x.reset();
  const at::Tensor other = at::full({kCount}, 9.0, at::kCUDA);
  EXPECT_EQ(values(y), std::vector<double>{6});
}

TEST_F(InputFreedAfterCapture, Control) {
  capture();
  const at::Tensor other = at::full({kCount}, 9.0, at::kCUDA);
  EXPECT_EQ(three_replays(x), (std::vector<double>{10, 14, 18}));
}

TEST_F(InputFreedAfterCapture, Reproduces) {
  capture();
  const void* const address = x.data_ptr();
  TRIGGER(x.reset());
  const at::Tensor other = at::empty({kCount}, at::kCUDA);
  record("address", other.data_ptr() == address ? "the same" : "another");
  REPRODUCES(three_replays(other), (std::vector<double>{10, 14, 18}), (std::vector<double>{6, 6, 6}));
}

TEST_F(InputFreedAfterCapture, ReproducesAfterEmptyCache) {
  capture();
  TRIGGER(x.reset());
  stream.synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  const Failure replay = failure_of([&] {
    graph->replay();
    stream.synchronize();
  });
  REPRODUCES(replay.text, "700", "ok");
}

TEST_F(InputFreedAfterCapture, FixKeepTheInput) {
  capture();
  at::Tensor kept;
  REMEDY(kept = x);
  x.reset();
  const at::Tensor other = at::full({kCount}, 11.0, at::kCUDA);
  const at::Tensor written = kept.defined() ? kept : at::empty({kCount}, at::kCUDA);
  EXPECT_EQ(three_replays(written), (std::vector<double>{10, 14, 18}));
}
