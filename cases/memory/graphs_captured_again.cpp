// Capturing a graph again while the old one lives takes twice the memory, and can fail for want of it.
//
// After an update of the weights' addresses or of a batch size a program captures anew and assigns the new graph to the
// old one's name. The old graph is destroyed after the new capture, so both pools exist during it. In Python an object
// that refers to itself keeps the old graph even longer: until the garbage collector runs, which a capture postpones. A
// server that fills the GPU to nine tenths runs out of memory in a capture that worked at its start.
//
// Alone:  g++ cases/memory/graphs_captured_again.cpp $(tools/libtorch --flags) -o graphs_captured_again

#include <memory>
#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graph that is captured again while the old one lives needs the memory of both",
    .sources = {{"upstream", "dion#108"}},
    .documented = "release the old graphs before capturing again: both sets of graph memory are held at once",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "memory pools", "several graphs"},
    .effect = Effect::Leaks,
    .fixes = {{"FixDropTheOldGraphFirst",
               "Call reset() on the old graphs, drop the tensors that they wrote, and call torch.cuda.empty_cache(), "
               "before you capture again."},
              {"FixCaptureIntoTheOldPool",
               "Capture the new graph into the old one's pool, with pool=old.pool() and on the same stream, if the old "
               "graph is never replayed again."}},
};

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

auto stats() {
  const auto all = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  return all.reserved_bytes[0];
}

}  // namespace

class GraphsCapturedAgain : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, bytes);
    work();
    stream.synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    before = stats().current;
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
    result.reset();
  }

  // At the peak, to the nearest 16 MiB: small segments are not counted.
  std::string most() const { return text_of((stats().peak - before + 8 * kMiB) / (16 * kMiB) * 16) + " MiB"; }

  // Doubles the data by way of 64 MiB that are freed at once.
  void work() {
    const at::Tensor block = at::zeros({64 * kMiB}, bytes);
    block.slice(0, 0, 4).add_(data, 2);
    result = block.slice(0, 0, 4).clone();
  }
  void capture(Pool pool = Pool{0, 0}) {
    std::unique_ptr<Graph> anew = make_graph();
    anew->capture_begin(pool);
    work();
    EXPECT_GT(captured_nodes(stream), 0);
    anew->capture_end();
    graph = std::move(anew);
  }
  void drop() {
    result.reset();
    graph->reset();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }
  void check_replays() {
    for (const int value : {5, 7}) {
      data.fill_(value);
      graph->replay();
      EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
    }
  }

  const at::TensorOptions bytes = at::device(at::kCUDA).dtype(at::kByte);
  at::Tensor data, result;
  int64_t before = 0;
};

TEST_F(GraphsCapturedAgain, Control) {
  capture();
  EXPECT_EQ(most(), "64 MiB");
  check_replays();
}

TEST_F(GraphsCapturedAgain, Reproduces) {
  capture();
  WITHOUT_TRIGGER(drop());
  capture();
  check_replays();
  REPRODUCES(most(), "128 MiB", "64 MiB");
}

TEST_F(GraphsCapturedAgain, FixDropTheOldGraphFirst) {
  capture();
  REMEDY(drop());
  capture();
  EXPECT_EQ(most(), "64 MiB");
  check_replays();
}

TEST_F(GraphsCapturedAgain, FixCaptureIntoTheOldPool) {
  capture();
  Pool pool{0, 0};
  REMEDY(pool = graph->pool());
  capture(pool);
  EXPECT_EQ(most(), "64 MiB");
  check_replays();
}
