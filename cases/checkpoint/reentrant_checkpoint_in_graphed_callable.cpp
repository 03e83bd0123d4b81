// A model with reentrant checkpointing cannot be made into a graphed callable.
//
// make_graphed_callables() captures the backward pass through autograd.grad(), after a warm-up that calls grad() as
// well. The checkpoint's backward asks the engine whether it may be called again, and under grad() it may not. No CUDA
// call is refused: the capture stays active and ends without an error, as an empty graph.
//
// Modelled: the text is raised by fixtures/torch/checkpoint.h, in the place of torch.utils.checkpoint, on the answer of
// LibTorch's engine. checkpoint_in_python_graphed_callable runs the real one.
//
// Alone:  g++ cases/checkpoint/reentrant_checkpoint_in_graphed_callable.cpp $(tools/libtorch --flags) -o reentrant_checkpoint_in_graphed_callable

#include "fixtures/torch/checkpoint.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graphed callable cannot be made from a model with reentrant checkpointing",
    .sources = {{"capture failures", "Partial Graphing with Reentrant Activation Checkpointing"}},
    .documented =
        "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
        "'inputs' parameter to .backward()",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"checkpointing", "graphed callables", "autograd"},
    .features = {"checkpointing", "graphed callables"},
    .fixes = {{"FixCheckpointWithoutReentrance",
               "Pass use_reentrant=False to checkpoint() in a model that you give to make_graphed_callables()."}},
};

class ReentrantCheckpointInGraphedCallable : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::tensor({1, 2, 3, 4}, at::kFloat).to(at::kCUDA).requires_grad_();
    weight = at::tensor({0.5, 0.25, -0.5, -1.0}, at::kFloat).to(at::kCUDA).requires_grad_();
    grad_y = at::ones({4}, at::kCUDA);
    checkpoint.segment = [this](const at::Tensor& input) { return exp_segment(input, weight); };
    expected();  // Starts autograd's thread.
    backward_graph = make_graph();
  }
  std::vector<double> expected() {
    return values(torch::autograd::grad({exp_segment(x.detach(), weight)}, {weight}, {grad_y})[0]);
  }
  at::Tensor forward(bool reentrant) {
    return reentrant ? checkpoint(x) : exp_checkpointed_without_reentrance(x, weight);
  }
  std::vector<at::Tensor> gradients(const at::Tensor& y) {
    return torch::autograd::grad({y}, {x, weight}, {grad_y}, {}, false, /*allow_unused=*/true);
  }
  // Captures forward and backward, and replays them twice, for another x each time.
  template <class Forward>
  void capture_and_replay(Forward forward) {
    graph->capture_begin();
    const at::Tensor y = forward();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    backward_graph->capture_begin(graph->pool());
    const at::Tensor grad = gradients(y)[1];
    EXPECT_GT(captured_nodes(stream), 0);
    backward_graph->capture_end();
    for (int round = 0; round < 2; ++round) {
      graph->replay();
      backward_graph->replay();
      EXPECT_EQ(values(grad), expected());
      x.detach().add_(1);
    }
  }
  at::Tensor x, weight, grad_y;
  Checkpoint checkpoint;
  std::unique_ptr<Graph> backward_graph;
  const std::string documented =
      "check \"When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an *";
};

TEST_F(ReentrantCheckpointInGraphedCallable, Control) {
  capture_and_replay([this] { return exp_segment(x, weight); });
}

TEST_F(ReentrantCheckpointInGraphedCallable, Reproduces) {
  graph->capture_begin();
  const at::Tensor y = forward(trigger_on());
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  backward_graph->capture_begin(graph->pool());
  const Failure first = failure_of([&] { gradients(y); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { backward_graph->capture_end(); });
  REPRODUCES(seen(first, status, end), documented + " > active > ok", "ok > active > ok");
}

TEST_F(ReentrantCheckpointInGraphedCallable, ReproducesInWarmUp) {
  const Failure first = failure_of([&] { gradients(forward(trigger_on())); });
  REPRODUCES(first.text, documented, "ok");
}

TEST_F(ReentrantCheckpointInGraphedCallable, FixCheckpointWithoutReentrance) {
  bool reentrant = true;
  REMEDY(reentrant = false);
  gradients(forward(reentrant));  // The warm-up.
  capture_and_replay([&] { return forward(reentrant); });
}
