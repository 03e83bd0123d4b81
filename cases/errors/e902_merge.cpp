// A capturing stream that waits for another capture's work is refused with 902.
//
// A stream joins a capture by waiting for one of its events. A stream that captures already belongs to a graph, and two
// graphs cannot become one, so CUDA refuses the wait. One thread begins both captures here, on streams of the same
// kind; the second has no work of its own, so that the wait is the only call that can be wrong. The variant through
// LibTorch captures in relaxed mode: capture_end() instantiates the graph, which a capture that is still open forbids
// to its thread in any other mode (capture_inside_capture).
//
// Alone:  g++ cases/errors/e902_merge.cpp $(tools/libtorch --flags) -o e902_merge

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A wait that would merge two captures is refused with 902",
    .sources = {{"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureMerge"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "902 cudaErrorStreamCaptureMerge: would merge two independent captures",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "side streams", "events", "several graphs"},
    .features = {"side streams", "several graphs"},
    .fixes = {{"FixJoinWithoutCapturing",
               "Begin no capture on the side stream: let it join with cudaStreamWaitEvent(), and let the origin wait "
               "for it before the end."}},
};

using E902Merge = RuntimeTest;

TEST_F(E902Merge, Control) {
  cudaGraph_t second = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaMemsetAsync(out, 9, 1, side));
  EXPECT_EQ(captured_nodes(stream), 1);
  EXPECT_EQ(captured_nodes(side), 1);
  ASSERT_CUDA(cudaStreamEndCapture(side, &second));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 5), 5);
  EXPECT_EQ(launch(instantiated(second), 5), 9);
}

TEST_F(E902Merge, Reproduces) {
  Failure first;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  TRIGGER(first = failure_of_code(cudaStreamWaitEvent(side, event, 0)));
  const std::string status = capture_status(side);
  const Failure end = failure_of_code(cudaStreamEndCapture(side, &captured));
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "902 > invalidated > 901", "ok > active > ok");
}

#ifdef RECAPTURE_HAS_LIBTORCH
TEST_F(E902Merge, ReproducesThroughLibTorch) {
  const at::Tensor data = at::full({1}, 3, at::kCUDA);
  const auto second = make_graph();
  at::cuda::CUDAEvent work;
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    at::zeros({1}, at::kCUDA);  // What capture_begin may need on this stream is cached.
  }
  graph->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const at::Tensor result = data * 2;
  work.record(stream);
  c10::cuda::setCurrentCUDAStream(side);
  second->capture_begin({0, 0}, cudaStreamCaptureModeRelaxed);
  const Failure first = failure_of([&] { TRIGGER(work.block(side)); });
  const std::string status = capture_status(side);
  const Failure end = failure_of([&] { second->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "902 > invalidated > 901", "ok > active > ok");
}
#endif  // RECAPTURE_HAS_LIBTORCH

TEST_F(E902Merge, FixJoinWithoutCapturing) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  WITHOUT_REMEDY(ASSERT_CUDA(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal)));
  ASSERT_CUDA(cudaEventRecord(event, stream));
  ASSERT_CUDA(cudaStreamWaitEvent(side, event, 0));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, side));
  ASSERT_CUDA(cudaEventRecord(event, side));
  ASSERT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  const cudaGraphExec_t exec = instantiated(captured);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
}
