// Sync debug mode misses a synchronising call that LibTorch does not make, and the capture fails without a warning.
//
// An extension that calls cudaStreamSynchronize itself bypasses the place where LibTorch checks the mode. The same call
// through c10::cuda::stream_synchronize is seen. Level 1 is set because it reports a call without stopping it.
//
// Alone:  g++ cases/sync/raw_sync_in_sync_debug_mode.cpp $(tools/libtorch --flags) -o raw_sync_in_sync_debug_mode

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A raw cudaStreamSynchronize escapes sync debug mode and invalidates a capture",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"},
                {"PyTorch documentation", "torch.cuda.set_sync_debug_mode"}},
    .documented = "no warning but 900 in the capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads", "raw CUDA calls", "extensions"},
    .features = {"host reads"},
    .fixes = {{"FixSynchronizeThroughLibtorch",
               "Call c10::cuda::stream_synchronize(), which sync debug mode sees, instead of cudaStreamSynchronize(), "
               "and only after replay."}},
};

namespace {

// Counts the warnings that speak of a synchronising operation.
class SyncWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("called a synchronizing CUDA operation") != std::string::npos) ++count;
  }
  int count = 0;
};

}  // namespace

class RawSyncInSyncDebugMode : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
  }
  at::Tensor data;
};

TEST_F(RawSyncInSyncDebugMode, Control) {
  SyncWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  set_sync_debug_mode(1);
  c10::cuda::stream_synchronize(stream);
  EXPECT_EQ(warnings.count, 1);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  set_sync_debug_mode(0);
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>{6});
}

TEST_F(RawSyncInSyncDebugMode, Reproduces) {
  SyncWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  set_sync_debug_mode(1);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  Failure first;
  TRIGGER(first = failure_of_code(cudaStreamSynchronize(stream)));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  set_sync_debug_mode(0);
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(std::to_string(warnings.count) + " warned of, " + seen(first, status, end),
             "0 warned of, 900 > invalidated > 901", "0 warned of, ok > active > ok");
}

TEST_F(RawSyncInSyncDebugMode, FixSynchronizeThroughLibtorch) {
  set_sync_debug_mode(2);
  Failure found;
  REMEDY(found = failure_of([&] { c10::cuda::stream_synchronize(stream); }));
  WITHOUT_REMEDY(found = failure_of_code(cudaStreamSynchronize(stream)));
  set_sync_debug_mode(0);
  EXPECT_THAT(found.text, ::testing::HasSubstr("called a synchronizing CUDA operation"));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamSynchronize(stream)));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    c10::cuda::stream_synchronize(stream);
    EXPECT_EQ(values(result), std::vector<double>{2.0 * value});
  }
}
