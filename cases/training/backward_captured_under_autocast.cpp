// A backward pass that is captured inside an autocast region runs under autocast in every replay.
//
// PyTorch's guide advises to leave the region before backward(): the gradients' operators then take the types that the
// forward pass chose. make_graphed_callables() cannot do so. Called inside a region, which it allows with
// cache_enabled=False, it captures forward and backward in one go, and the backward's operators are cast once more. A
// part of the model that switches autocast off, for its precision, has its forward pass in float and its gradients in
// half precision: they are rounded, and a large one overflows. Nothing warns, and the same model without graphs, or
// with the backward outside the region, is right.
//
// The weight here is 1 + 2^-12, which half precision rounds to 1.
//
// Alone:  g++ cases/training/backward_captured_under_autocast.cpp $(tools/libtorch --flags) -o backward_captured_under_autocast

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A backward pass that is captured inside an autocast region computes its gradients under autocast",
    .sources = {{"upstream", "pytorch#120930"}},
    .documented =
        "if make_graphed_callables is called within an autocast context, it will also use autocast for the "
        "backward pass",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"autocast", "autograd", "graphed callables"},
    .features = {"autocast", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixAutocastInTheForward",
               "Enter the autocast region in the module's forward(), and call make_graphed_callables() outside of any "
               "region."},
              {"FixLeaveBeforeTheBackward",
               "Where you capture yourself, leave the region before backward() in the capture."}},
};

class BackwardCapturedUnderAutocast : public GpuTest {
 protected:
  using Values = std::vector<double>;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    at::autocast::set_autocast_cache_enabled(false);
    x = at::ones({4, 4}, at::kCUDA).requires_grad_();
    weight = at::full({4, 4}, 1 + 1.0 / 4096, at::kCUDA);
    upstream = at::ones({4, 4}, at::kCUDA);
    step(/*around_backward=*/false);  // Loads the kernels and starts the engine's threads.
    step(/*around_backward=*/true);
    stream.synchronize();
  }
  void TearDown() override {
    set(false);
    at::autocast::set_autocast_cache_enabled(true);
    GpuTest::TearDown();
  }

  // torch.autocast("cuda"), by the switch that each release's own function turns.
  static void set(bool on) { c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA, !on); }

  // A layer in half precision, and one that switches autocast off.
  at::Tensor forward() {
    set(true);
    const at::Tensor half = at::mm(x, weight);
    EXPECT_EQ(half.scalar_type(), at::kHalf);
    set(false);
    return at::mm(x, weight);
  }
  // What make_graphed_callables() captures.
  void step(bool around_backward) {
    const at::Tensor y = forward();
    set(around_backward);
    gradient = torch::autograd::grad({y}, {x}, {upstream})[0];
    set(false);
  }
  Values gradients_after_replays(bool around_backward) {
    graph->capture_begin();
    step(around_backward);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    Values all;
    for (const int value : {1, 2}) {
      upstream.fill_(value);
      graph->replay();
      all.push_back(values(gradient)[0]);
    }
    return all;
  }

  at::Tensor x, weight, upstream, gradient;
};

// Four products with the weight.
const std::vector<double> kFloat = {4 + 4.0 / 4096, 8 + 8.0 / 4096}, kRounded = {4, 8};

TEST_F(BackwardCapturedUnderAutocast, ControlEager) {
  Values all;
  for (const int value : {1, 2}) {
    upstream.fill_(value);
    step(/*around_backward=*/false);
    all.push_back(values(gradient)[0]);
  }
  EXPECT_EQ(all, kFloat);
}

TEST_F(BackwardCapturedUnderAutocast, Control) { EXPECT_EQ(gradients_after_replays(false), kFloat); }

TEST_F(BackwardCapturedUnderAutocast, Reproduces) {
  bool around_backward = false;
  TRIGGER(around_backward = true);
  REPRODUCES(gradients_after_replays(around_backward), kRounded, kFloat);
}

TEST_F(BackwardCapturedUnderAutocast, FixAutocastInTheForward) {
  bool outside = true;  // The caller's region, around all of it.
  REMEDY(outside = false);
  EXPECT_EQ(gradients_after_replays(outside), kFloat);
}

TEST_F(BackwardCapturedUnderAutocast, FixLeaveBeforeTheBackward) {
  graph->capture_begin();
  const at::Tensor y = forward();
  set(true);
  REMEDY(set(false));
  gradient = torch::autograd::grad({y}, {x}, {upstream})[0];
  graph->capture_end();
  set(false);
  for (const int value : {1, 2}) {
    upstream.fill_(value);
    graph->replay();
    EXPECT_EQ(values(gradient)[0], kFloat[value - 1]);
  }
}
