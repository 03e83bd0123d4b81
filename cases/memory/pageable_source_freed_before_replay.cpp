// A captured copy from pageable memory reads whatever is there at replay, after its source has been freed.
//
// A non-blocking copy from a pageable tensor is recorded with the bare address: nothing keeps the memory, and nothing
// is raised. The tensor lies in a buffer of the test's own, and its deleter writes there, as the memory's next owner
// would: the foreign value is certain, and no unmapped memory is read.
//
// Alone:  g++ cases/memory/pageable_source_freed_before_replay.cpp $(tools/libtorch --flags) -o pageable_source_freed_before_replay

#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured copy from pageable memory uploads foreign bytes once its source is freed",
    .sources = {{"CUDA graph guide", "Numerical Errors"}, {"upstream", "pytorch#171894"}},
    .documented = "no error, garbage in the copied tensor on replay",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "host reads"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepPinnedSource",
               "Copy from a pinned tensor in the capture and keep that tensor for as long as the graph is replayed."},
              {"FixUploadBeforeReplay",
               "Upload the data with copy_() before each graph.replay() instead of capturing the copy."}},
};

namespace {

constexpr int64_t kCount = 1 << 20;

}  // namespace

class PageableSourceFreedBeforeReplay : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::zeros({kCount}, at::device(at::kCUDA).dtype(at::kFloat));
    memory.assign(kCount, 3);
    source = at::from_blob(
        memory.data(), {kCount}, [this](void*) { memory.assign(kCount, 9); }, at::kFloat);
  }
  std::vector<float> memory;
  at::Tensor data, source;
};

TEST_F(PageableSourceFreedBeforeReplay, Control) {
  data.copy_(source, /*non_blocking=*/true);
  stream.synchronize();
  source.reset();
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result.slice(0, 0, 1)), std::vector<double>{6});
}

TEST_F(PageableSourceFreedBeforeReplay, Reproduces) {
  WITHOUT_TRIGGER(source = source.pin_memory());  // Kept to the end, as in FixKeepPinnedSource.
  graph->capture_begin();
  const Failure first = failure_of([&] { data.copy_(source, /*non_blocking=*/true); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  TRIGGER(source.reset());
  const Failure replay = failure_of([&] { graph->replay(); });
  const double uploaded = values(data.slice(0, 0, 1))[0];
  REPRODUCES(seen(first, status, end) + ", replay " + replay.text + ", uploads " + text_of(uploaded),
             "ok > active > ok, replay ok, uploads 9", "ok > active > ok, replay ok, uploads 3");
}

TEST_F(PageableSourceFreedBeforeReplay, FixKeepPinnedSource) {
  REMEDY(source = source.pin_memory());
  graph->capture_begin();
  data.copy_(source, /*non_blocking=*/true);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  WITHOUT_REMEDY(source.reset());
  for (const int value : {5, 7}) {
    REMEDY(source.fill_(value));
    graph->replay();
    EXPECT_EQ(values(data.slice(0, kCount - 1)), std::vector<double>{1.0 * value});
  }
}

TEST_F(PageableSourceFreedBeforeReplay, FixUploadBeforeReplay) {
  graph->capture_begin();
  WITHOUT_REMEDY(data.copy_(source, /*non_blocking=*/true));
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  source.reset();
  for (const int value : {5, 7}) {
    REMEDY(data.copy_(at::full({kCount}, value, at::kFloat), /*non_blocking=*/true));
    graph->replay();
    EXPECT_EQ(values(result.slice(0, kCount - 1)), std::vector<double>{2.0 * value});
  }
}
