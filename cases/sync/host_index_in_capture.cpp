// Indexing a CUDA tensor by a tensor on the host invalidates the capture that it happens in.
//
// The kernel needs the indices on the GPU, so LibTorch uploads them first, from pageable memory and with a wait. A list
// of numbers in Python should take the same path, as it becomes a tensor on the host first; it is not tried here.
//
// Alone:  g++ cases/sync/host_index_in_capture.cpp $(tools/libtorch --flags) -o host_index_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Indexing a CUDA tensor by host indices during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes = {{"FixIndexOnTheGpu",
               "Move the indices to the GPU with to('cuda') before the capture and index with that CUDA tensor."},
              {"FixIndexSelectOnTheGpu",
               "Call index_select() with an index tensor that was moved to the GPU before the capture."}},
};

class HostIndexInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({3.0f, 4.0f, 5.0f}, at::kCUDA);
    places = at::tensor({int64_t{0}, int64_t{2}});
    data.index({places});
  }
  at::Tensor data, places;
};

TEST_F(HostIndexInCapture, Control) {
  const at::Tensor chosen = data.index({places});
  graph->capture_begin();
  const at::Tensor result = chosen * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{6, 10}));
}

TEST_F(HostIndexInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(doubled.index({places})); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(HostIndexInCapture, ReproducesOnAssignment) {
  const at::Tensor zeros = at::zeros({2}, data.options());
  graph->capture_begin();
  at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(doubled.index_put_({places}, zeros)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(HostIndexInCapture, FixIndexOnTheGpu) {
  at::Tensor indices = places;
  REMEDY(indices = places.to(at::kCUDA));
  graph->capture_begin();
  const at::Tensor result = data.index({indices});
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int64_t place : {1, 2}) {
    indices.fill_(place);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(2, 3.0 + place));
  }
}

TEST_F(HostIndexInCapture, FixIndexSelectOnTheGpu) {
  at::Tensor on_gpu = places.to(at::kCUDA);
  graph->capture_begin();
  WITHOUT_REMEDY(data.index({places}));
  const at::Tensor result = data.index_select(0, on_gpu);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int64_t place : {1, 2}) {
    on_gpu.fill_(place);
    graph->replay();
    EXPECT_EQ(values(result), std::vector<double>(2, 3.0 + place));
  }
}
