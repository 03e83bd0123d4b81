// A side stream that the capturing stream does not wait for makes the end of the capture fail.
//
// The side stream forks correctly and its work is captured. What is missing is the join: at the end the graph has a
// branch that nothing waits for, and CUDA refuses to end the capture (904). Joining too early is the same mistake: work
// that the side stream gets after the join is unjoined again. In both variants every call before capture_end succeeds.
//
// Alone:  g++ cases/streams/side_stream_not_joined.cpp $(tools/libtorch --flags) -o side_stream_not_joined

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A side stream that is not joined before capture_end makes it fail",
    .sources = {{"capture failures", "Quick Reference"},
                {"PyTorch documentation", "CUDA semantics: Usage with multiple streams"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureUnjoined"}},
    .documented = "All side streams have exit sync; without it cudaErrorStreamCaptureUnjoined(904)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams"},
    .features = {"side streams"},
    .fixes = {{"FixJoinBeforeTheEnd",
               "Call capture_stream.wait_stream(side_stream) after the side stream's last work and before the capture "
               "ends."}},
};

class SideStreamNotJoined : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    side = c10::cuda::getStreamFromPool();
  }

  at::Tensor add_on_side_stream(const at::Tensor& to) {
    const c10::cuda::CUDAStreamGuard guard(side);
    return to + 1;
  }

  at::Tensor x;
  c10::cuda::CUDAStream side = stream;
  at::cuda::CUDAEvent fork, join;
};

TEST_F(SideStreamNotJoined, Control) {
  graph->capture_begin();
  const at::Tensor y = x + 1;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  graph->replay();
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(SideStreamNotJoined, Reproduces) {
  at::Tensor y;
  graph->capture_begin();
  fork.record(stream);
  fork.block(side);
  const Failure first = failure_of([&] { y = add_on_side_stream(x); });
  WITHOUT_TRIGGER(join.record(side); join.block(stream));
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "ok > active > 904", "ok > active > ok");
}

TEST_F(SideStreamNotJoined, ReproducesWhenJoinedTooEarly) {
  at::Tensor y, z;
  graph->capture_begin();
  fork.record(stream);
  fork.block(side);
  const Failure first = failure_of([&] {
    y = add_on_side_stream(x);
    join.record(side);
    join.block(stream);
    TRIGGER(z = add_on_side_stream(y));
  });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamEndCapture");
  REPRODUCES(seen(first, status, end), "ok > active > 904", "ok > active > ok");
}

TEST_F(SideStreamNotJoined, FixJoinBeforeTheEnd) {
  graph->capture_begin();
  fork.record(stream);
  fork.block(side);
  const at::Tensor y = add_on_side_stream(x);
  REMEDY(join.record(side); join.block(stream));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, value + 1.0));
  }
}
