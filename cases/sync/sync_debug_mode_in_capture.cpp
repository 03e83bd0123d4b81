// Sync debug mode reports a synchronising call before it reaches CUDA.
//
// LibTorch checks the mode before each wait of its own. Level 1 warns and goes on, so that the capture is invalidated
// all the same; level 2 throws before CUDA is called, so that the capture survives and the exception points at the
// culprit. Outside a capture level 2 finds the call without any graph.
//
// Alone:  g++ cases/sync/sync_debug_mode_in_capture.cpp $(tools/libtorch --flags) -o sync_debug_mode_in_capture

#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Sync debug mode warns about item() during a capture, or refuses it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "called a synchronizing CUDA operation: level 1 warns, level 2 throws",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixFindBeforeCapture",
               "Run the code once under torch.cuda.set_sync_debug_mode('error') before the capture, and move what it "
               "reports out of the capture."}},
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

class SyncDebugModeInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({1}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    data.item();
  }
  at::Tensor data;
};

TEST_F(SyncDebugModeInCapture, Control) {
  SyncWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  set_sync_debug_mode(2);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  set_sync_debug_mode(0);
  EXPECT_EQ(values(result), std::vector<double>{6});
  EXPECT_EQ(warnings.count, 0);
}

TEST_F(SyncDebugModeInCapture, Reproduces) {
  set_sync_debug_mode(2);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.item()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  set_sync_debug_mode(0);
  REPRODUCES(seen(first, status, end), "check \"called a synchronizing CUDA operation*\" > active > ok",
             "ok > active > ok");
}

TEST_F(SyncDebugModeInCapture, ReproducesAsWarning) {
  SyncWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  set_sync_debug_mode(1);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.item()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  set_sync_debug_mode(0);
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(std::to_string(warnings.count) + " warned of, " + seen(first, status, end),
             "1 warned of, 900 > invalidated > 901", "0 warned of, ok > active > ok");
}

TEST_F(SyncDebugModeInCapture, FixFindBeforeCapture) {
  REMEDY(set_sync_debug_mode(2));
  const Failure found = failure_of([&] { (data * 2).item(); });
  set_sync_debug_mode(0);
  EXPECT_THAT(found.text, ::testing::HasSubstr("called a synchronizing CUDA operation"));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.item());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(result.item<float>(), 2 * value);
  }
}
