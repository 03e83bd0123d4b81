// Copying a tensor to the host invalidates the capture that the copy happens in.
//
// A blocking copy into pageable memory is a cudaMemcpyAsync followed by a cudaStreamSynchronize. The copy alone could
// be recorded; the wait cannot, because a capturing stream executes nothing. In one variant LibTorch makes the host
// tensor, in the other it exists already. A warm-up copy loads everything else that a copy needs.
//
// Alone:  g++ cases/sync/cpu_copy_in_capture.cpp $(tools/libtorch --flags) -o cpu_copy_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A blocking copy of a tensor to the host during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixCopyAfterReplay", "Call cpu() on the graph's output after graph.replay(), outside the capture."},
              {"FixCopyWithoutBlockingAfterReplay",
               "Copy after graph.replay() with to('cpu', non_blocking=True) and synchronize the stream before you read "
               "the result."},
              {"FixCaptureCopyIntoPinnedMemory",
               "Capture copy_(result, non_blocking=True) into a pinned tensor made before the capture, and synchronize "
               "before you read it."}},
};

class CpuCopyInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::full({4}, 3, at::device(at::kCUDA).dtype(at::kFloat));
    data.cpu();
  }
  at::Tensor data;
};

TEST_F(CpuCopyInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 6));
}

TEST_F(CpuCopyInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.cpu()); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(CpuCopyInCapture, ReproducesIntoHostTensor) {
  at::Tensor host = at::zeros({4}, at::kFloat);
  graph->capture_begin();
  const at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(host.copy_(result)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(CpuCopyInCapture, FixCopyAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.cpu());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    const at::Tensor host = result.cpu();
    EXPECT_EQ(values(host), std::vector<double>(4, 2 * value));
  }
}

TEST_F(CpuCopyInCapture, FixCopyWithoutBlockingAfterReplay) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.cpu());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    const at::Tensor host = result.to(at::kCPU, at::kFloat, /*non_blocking=*/true);
    stream.synchronize();
    EXPECT_EQ(values(host), std::vector<double>(4, 2 * value));
  }
}

TEST_F(CpuCopyInCapture, FixCaptureCopyIntoPinnedMemory) {
  bool pinned = false;
  REMEDY(pinned = true);
  at::Tensor host = at::zeros({4}, at::TensorOptions().dtype(at::kFloat).pinned_memory(pinned));
  graph->capture_begin();
  const at::Tensor result = data * 2;
  host.copy_(result, /*non_blocking=*/pinned);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    stream.synchronize();
    EXPECT_EQ(values(host), std::vector<double>(4, 2 * value));
  }
}
