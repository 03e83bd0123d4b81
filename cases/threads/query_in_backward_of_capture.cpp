// A backward function that queries an event or pins memory does so in a thread of the autograd engine: a global capture
// forbids it there, a thread-local one does not.
//
// The engine runs the backward of a CUDA operation in its own device thread, on the stream of the forward. In global
// mode the prohibition covers that thread: its query fails (900) and invalidates the capture. In thread-local mode the
// same query that fails in the forward, in the capturing thread, passes in the backward, so half of a training step
// goes unchecked. The work that the engine's thread launches is captured in either mode, since it goes to the capturing
// stream. The document only warns that thread-local mode "may not work" for backward passes;
// ReproducesUncheckedBackward shows what that means.
//
// Alone:  g++ cases/threads/query_in_backward_of_capture.cpp $(tools/libtorch --flags) -o query_in_backward_of_capture

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Thread-local capture mode does not cover the thread that runs the backward pass",
    .sources = {{"capture failures", "Background Thread Queries"}},
    .documented = "capture_error_mode=\"thread_local\" may not work for backward passes, executed in a separate thread",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads", "autograd", "events", "pinned memory"},
    .features = {"autograd"},
    .fixes = {{"FixQueryAfterTheCapture",
               "Take event.query() out of the backward function and call it after the capture has ended."},
              {"FixRelaxedGuardInTheBackward",
               "Put c10::cuda::CUDAStreamCaptureModeGuard(cudaStreamCaptureModeRelaxed) around the query in the "
               "backward function."}},
};

namespace {

constexpr int64_t kSize = 1 << 20;  // Nothing of this size is ever pinned before.
const at::TensorOptions kPinned = at::TensorOptions().dtype(at::kFloat).pinned_memory(true);

// What the function below does besides its arithmetic, and what became of that.
struct Extra {
  std::function<void()> work = [] {};
  Failure found;
};
Extra in_forward, in_backward;
std::thread::id backward_thread;

struct Triple : torch::autograd::Function<Triple> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    in_forward.found = failure_of(in_forward.work);
    return x * 3;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    backward_thread = std::this_thread::get_id();
    in_backward.found = failure_of(in_backward.work);
    return {gradients[0] * 3};
  }
};

}  // namespace

class QueryInBackwardOfCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    event.record(c10::cuda::getDefaultCUDAStream());
    x = at::full({1}, 2.0, at::kCUDA).requires_grad_();
    weight = at::full({1}, 1.0, at::kCUDA);
    in_forward = in_backward = Extra();
    gradient_of_step();  // Starts the engine's threads.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // Forward and backward; no AccumulateGrad, whose stream is a failure of its own.
  at::Tensor gradient_of_step() { return torch::autograd::grad({Triple::apply(x)}, {x}, {weight})[0]; }

  // One capture of a step: what became of the extra work in the backward, the capture's status, and its end.
  std::string capture_step(cudaStreamCaptureMode mode) {
    in_forward.found.text = in_backward.found.text = "not reached";
    graph->capture_begin({0, 0}, mode);
    failure_of([&] { gradient = gradient_of_step(); });  // Once the capture is invalidated, its operations fail too.
    const std::string status = capture_status(stream);
    nodes = captured_nodes(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(in_backward.found, status, end);
  }

  void check_replays() {
    EXPECT_NE(backward_thread, std::this_thread::get_id());
    EXPECT_GE(nodes, 2);  // One multiplication by this thread, one by the engine's.
    for (const int value : {5, 7}) {
      weight.fill_(value);
      graph->replay();
      EXPECT_EQ(values(gradient), std::vector<double>{3.0 * value});
    }
  }

  at::Tensor x, weight, gradient;
  at::cuda::CUDAEvent event;
  int nodes = -1;
};

TEST_F(QueryInBackwardOfCapture, ControlGlobalMode) {
  EXPECT_EQ(capture_step(cudaStreamCaptureModeGlobal), "ok > active > ok");
  check_replays();
}

TEST_F(QueryInBackwardOfCapture, ControlThreadLocalModeCapturesTheBackward) {
  EXPECT_EQ(capture_step(cudaStreamCaptureModeThreadLocal), "ok > active > ok");
  check_replays();
}

TEST_F(QueryInBackwardOfCapture, ReproducesInGlobalMode) {
  in_backward.work = [&] { TRIGGER(event.query()); };
  const std::string found = capture_step(cudaStreamCaptureModeGlobal);
  RAISED_BY("cuEventQuery");
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(QueryInBackwardOfCapture, ReproducesPinnedAllocationInGlobalMode) {
  in_backward.work = [&] { TRIGGER(at::empty({kSize}, kPinned)); };
  const std::string found = capture_step(cudaStreamCaptureModeGlobal);
  RAISED_BY("cuMemHostAlloc");
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

// The document's warning, read literally: a backward that does in thread-local mode what the mode forbids.
TEST_F(QueryInBackwardOfCapture, ReproducesFailureInThreadLocalMode) {
  in_backward.work = [&] { TRIGGER(event.query()); };
  const std::string found = capture_step(cudaStreamCaptureModeThreadLocal);
  REPRODUCES(found, "900 > invalidated > 901", "ok > active > ok");
}

// What the mode means for the two threads: the same call is refused in the forward and allowed in the backward.
TEST_F(QueryInBackwardOfCapture, ReproducesUncheckedBackward) {
  in_backward.work = [&] { TRIGGER(event.query()); };
  capture_step(cudaStreamCaptureModeThreadLocal);
  const Failure backward = in_backward.found;
  EXPECT_NE(backward_thread, std::this_thread::get_id());
  in_backward.work = [] {};
  in_forward.work = [&] { TRIGGER(event.query()); };
  graph = make_graph();
  capture_step(cudaStreamCaptureModeThreadLocal);
  RAISED_BY("cuEventQuery");
  REPRODUCES("forward " + in_forward.found.text + ", backward " + backward.text, "forward 900, backward ok",
             "forward ok, backward ok");
}

TEST_F(QueryInBackwardOfCapture, FixQueryAfterTheCapture) {
  WITHOUT_REMEDY(in_backward.work = [&] { event.query(); });
  ASSERT_EQ(capture_step(cudaStreamCaptureModeGlobal), "ok > active > ok");
  REMEDY(EXPECT_TRUE(event.query()));
  check_replays();
}

TEST_F(QueryInBackwardOfCapture, FixRelaxedGuardInTheBackward) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;  // A thread's own, unless it sets another.
  REMEDY(mode = cudaStreamCaptureModeRelaxed);
  in_backward.work = [&] {
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    EXPECT_TRUE(event.query());
  };
  ASSERT_EQ(capture_step(cudaStreamCaptureModeGlobal), "ok > active > ok");
  check_replays();
}
