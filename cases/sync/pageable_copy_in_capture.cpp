// A copy between pageable host memory and the GPU is refused in a capture.
//
// A blocking copy waits for the stream, which CUDA refuses with 900. A non-blocking one needs no wait, and up to 2.10
// LibTorch records it with the bare host address. From 2.11 on LibTorch refuses every such copy, blocking or not and in
// either direction, before it calls CUDA, so that the capture stays valid; the non-blocking variants expect that check.
//
// Alone:  g++ cases/sync/pageable_copy_in_capture.cpp $(tools/libtorch --flags) -o pageable_copy_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A copy between pageable memory and the GPU during a capture is refused",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"upstream", "pytorch#171894"},
                {"upstream", "pytorch#172156"}},
    .documented =
        "cudaErrorStreamCaptureUnsupported(900); from 2.11 on \"Cannot copy between CPU and CUDA tensors "
        "during CUDA graph capture unless the CPU tensor is pinned\"",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixCopyBeforeReplay",
               "Copy the host data into the graph's static input with copy_() before each graph.replay(), outside the "
               "capture."},
              {"FixCopyFromPinnedMemory",
               "Allocate the host tensor with pin_memory=True before the capture and capture copy_(pinned, "
               "non_blocking=True)."}},
};

class PageableCopyInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::zeros({4}, at::device(at::kCUDA).dtype(at::kFloat));
    host = at::full({4}, 3, at::kFloat);
    data.copy_(host);
  }
  at::Tensor data, host;
};

TEST_F(PageableCopyInCapture, Control) {
  graph->capture_begin();
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  data.copy_(host.fill_(5));
  graph->replay();
  EXPECT_EQ(values(result), std::vector<double>(4, 10));
}

TEST_F(PageableCopyInCapture, Reproduces) {
  graph->capture_begin();
  data.mul_(2);
  const Failure first = failure_of([&] { TRIGGER(data.copy_(host)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(PageableCopyInCapture, ReproducesWithoutBlocking) {
  graph->capture_begin();
  data.mul_(2);
  const Failure first = failure_of([&] { TRIGGER(data.copy_(host, /*non_blocking=*/true)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Cannot copy between CPU and CUDA tensors during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(PageableCopyInCapture, ReproducesToHostWithoutBlocking) {
  graph->capture_begin();
  data.mul_(2);
  const Failure first = failure_of([&] { TRIGGER(host.copy_(data, /*non_blocking=*/true)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  REPRODUCES(seen(first, status, end),
             "check \"Cannot copy between CPU and CUDA tensors during CUDA graph capture*\" > active > ok",
             "ok > active > ok");
}

TEST_F(PageableCopyInCapture, FixCopyBeforeReplay) {
  graph->capture_begin();
  WITHOUT_REMEDY(data.copy_(host));
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    host.fill_(value);
    data.copy_(host);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));
  }
}

TEST_F(PageableCopyInCapture, FixCopyFromPinnedMemory) {
  bool pinned = false;
  REMEDY(pinned = true);
  at::Tensor source = at::zeros({4}, at::TensorOptions().dtype(at::kFloat).pinned_memory(pinned));
  graph->capture_begin();
  data.copy_(source, /*non_blocking=*/pinned);
  const at::Tensor result = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    source.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(4, 2 * value));  // Also waits, so that the next write is safe.
  }
}
