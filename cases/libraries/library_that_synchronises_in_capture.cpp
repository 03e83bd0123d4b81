// A library routine that is checked on the host waits for the GPU, and so invalidates the capture.
//
// To raise an error, PyTorch reads on the host whether the input of an eigensolver is finite, and whether a matrix
// could be inverted. CUDA refuses that read in a capture. The _ex functions return the answer in a tensor and read
// nothing. reports/operators.md lists the functions that wait.
//
// Alone:  g++ cases/libraries/library_that_synchronises_in_capture.cpp $(tools/libtorch --flags) -o library_that_synchronises_in_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A library routine that PyTorch checks on the host, such as an eigensolver, invalidates the capture",
    .sources = {{"CUDA semantics: graphs", "Constraints"},
                {"PyTorch documentation", "torch.linalg.inv_ex: check_errors"}},
    .documented = "Ops that synchronize the CPU with the GPU are prohibited: 900, then 901",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"extensions", "host reads"},
    .fixes = {{"FixCallAfterReplay",
               "Call the routine outside the captured region, and capture what comes before and after it as two "
               "graphs."},
              {"FixWithoutCheck",
               "Call the _ex function of torch.linalg (inv_ex, cholesky_ex, solve_ex) and read its info after the "
               "replay."}},
};

class LibraryThatSynchronisesInCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    data = at::eye(4, at::kCUDA);
    at::linalg_inv(data);
    at::linalg_inv_ex(data);
    at::linalg_eig(data);
    stream.synchronize();
  }

  // The identity, times a number.
  void set(int value) { data.copy_(at::eye(4, at::kCUDA) * value); }

  at::Tensor data;
};

TEST_F(LibraryThatSynchronisesInCapture, Control) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {1, 2}) {
    set(value);
    graph->replay();
    EXPECT_EQ(values(at::real(std::get<0>(at::linalg_eig(doubled)))), std::vector<double>(4, 2.0 * value));
    EXPECT_EQ(values(at::linalg_inv(doubled).diagonal()), std::vector<double>(4, 0.5 / value));
  }
}

TEST_F(LibraryThatSynchronisesInCapture, Reproduces) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(at::linalg_eig(doubled)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(LibraryThatSynchronisesInCapture, ReproducesCheck) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  const Failure first = failure_of([&] { TRIGGER(at::linalg_inv(doubled)); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(seen(first, status, end), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(LibraryThatSynchronisesInCapture, FixCallAfterReplay) {
  graph->capture_begin();
  const at::Tensor doubled = data * 2;
  WITHOUT_REMEDY(at::linalg_eig(doubled));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {1, 2}) {
    set(value);
    graph->replay();
    EXPECT_EQ(values(at::real(std::get<0>(at::linalg_eig(doubled)))), std::vector<double>(4, 2.0 * value));
  }
}

TEST_F(LibraryThatSynchronisesInCapture, FixWithoutCheck) {
  at::Tensor inverse, info;
  graph->capture_begin();
  REMEDY(std::tie(inverse, info) = at::linalg_inv_ex(data * 2));
  WITHOUT_REMEDY(inverse = at::linalg_inv(data * 2));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  for (const int value : {1, 2}) {
    set(value);
    graph->replay();
    EXPECT_EQ(values(inverse.diagonal()), std::vector<double>(4, 0.5 / value));
    EXPECT_EQ(info.item<int>(), 0);
  }
}
