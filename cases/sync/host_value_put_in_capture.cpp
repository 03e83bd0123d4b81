// Assigning a host value to indexed elements of a CUDA tensor invalidates the capture that it happens in.
//
// A number that is assigned through an index becomes a zero-dimensional host tensor, which LibTorch uploads, with a
// wait, before it writes. A number that goes to a kernel as a Scalar, as in index_fill_(), needs no upload. In Python
// y[i] = 0.0 is uploaded in 2.6, 2.7 and 2.11, and no longer in 2.15.
//
// Alone:  g++ cases/sync/host_value_put_in_capture.cpp $(tools/libtorch --flags) -o host_value_put_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Assigning a host value through an index during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"CUDA graph guide", "Writing Sync-Free Code"},
                {"upstream", "pytorch#186486"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"host reads"},
    .features = {"host reads"},
    .fixes =
        {{"FixValueOnTheGpu",
          "Put the value into a CUDA tensor before the capture and pass that tensor to index_put_()."},
         {"FixFillByIndex",
          "Assign a plain number with index_fill_(dim, index, value), which hands it to the kernel without a copy."}},
};

class HostValuePutInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::tensor({3.0f, 4.0f, 5.0f}, at::kCUDA);
    places = at::tensor({int64_t{0}, int64_t{2}}, at::device(at::kCUDA).dtype(at::kLong));
    host_zero = at::tensor(0.0f);
    data.clone().index_put_({places}, host_zero);
  }
  at::Tensor data, places, host_zero;
};

TEST_F(HostValuePutInCapture, Control) {
  const at::Tensor zero = host_zero.to(at::kCUDA);
  graph->capture_begin();
  at::Tensor result = data * 2;
  result.index_put_({places}, zero);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(result), (std::vector<double>{0, 8, 0}));
}

TEST_F(HostValuePutInCapture, Reproduces) {
  graph->capture_begin();
  at::Tensor result = data * 2;
  const Failure first = failure_of([&] { TRIGGER(result.index_put_({places}, host_zero)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(HostValuePutInCapture, FixValueOnTheGpu) {
  at::Tensor written = host_zero;
  REMEDY(written = host_zero.to(at::kCUDA));
  graph->capture_begin();
  at::Tensor result = data * 2;
  result.index_put_({places}, written);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {1, 2}) {
    written.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), (std::vector<double>{1.0 * value, 8, 1.0 * value}));
  }
}

TEST_F(HostValuePutInCapture, FixFillByIndex) {
  graph->capture_begin();
  at::Tensor result = data * 2;
  WITHOUT_REMEDY(result.index_put_({places}, host_zero));
  result.index_fill_(0, places, 0);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    data.fill_(value);
    graph->replay();
    EXPECT_EQ(values(result), (std::vector<double>{0, 2.0 * value, 0}));
  }
}
