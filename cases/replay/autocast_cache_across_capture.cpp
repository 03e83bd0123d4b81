// Autocast's copy of a weight, cached before the capture, is what every replay reads, whatever the weight is by then.
//
// Within an autocast region the cast of a parameter is made once and cached. If a warm-up and the capture lie in one
// region, the capture finds the copy in the cache: the cast is not in the graph, and an optimizer's update of the
// weight is seen by no replay. prelu() stands for the layers here; autocast treats it as it does a matrix product.
//
// Alone:  g++ cases/replay/autocast_cache_across_capture.cpp $(tools/libtorch --flags) -o autocast_cache_across_capture

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A weight that autocast has cast before the capture is not cast again by any replay",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"PyTorch source", "aten/src/ATen/autocast_mode.cpp: cached_cast"}},
    .documented = "the weight's update is not seen: the cached cast is reused",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"autocast"},
    .features = {"autocast"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCacheOff",
               "Use torch.autocast(..., cache_enabled=False) around the warm-up and the capture of a graph."},
              {"FixEnterInsideTheCapture",
               "Leave the autocast region before the capture and enter a new one inside it."}},
};

using Values = std::vector<double>;

class AutocastCacheAcrossCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({1}, -1.0, at::kCUDA);
    weight = at::full({1}, 2.0, at::kCUDA).set_requires_grad(true);
    layer();  // Loads the kernels.
    leave();
  }
  void TearDown() override {
    leave();
    at::autocast::set_autocast_cache_enabled(true);
    GpuTest::TearDown();
  }

  // torch.autocast("cuda"), by the switch that each release's own function turns.
  static void enter() { c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA, false); }
  static void leave() {
    c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA, true);
    at::autocast::clear_cache();
  }

  // -1 has the slope that is the weight.
  at::Tensor layer() {
    enter();
    return at::prelu(x, weight);
  }

  void capture() {
    graph->capture_begin();
    y = layer();
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    ASSERT_EQ(y.scalar_type(), at::kHalf);
  }

  void update_weight(int value) {
    const c10::NoGradGuard guard;
    weight.fill_(value);
  }

  Values three_replays() {
    Values all;
    for (const int value : {5, 7, 9}) {
      update_weight(value);
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  at::Tensor x, weight, y;
};

// A region for each step, as training has it.
TEST_F(AutocastCacheAcrossCapture, ControlEager) {
  for (const int value : {5, 7, 9}) {
    update_weight(value);
    EXPECT_EQ(values(layer()), Values{-1.0 * value});
    leave();
  }
}

TEST_F(AutocastCacheAcrossCapture, Control) {
  capture();
  EXPECT_EQ(three_replays(), (Values{-5, -7, -9}));
}

TEST_F(AutocastCacheAcrossCapture, Reproduces) {
  TRIGGER(layer());
  capture();
  REPRODUCES(three_replays(), (Values{-2, -2, -2}), (Values{-5, -7, -9}));
}

TEST_F(AutocastCacheAcrossCapture, FixCacheOff) {
  REMEDY(at::autocast::set_autocast_cache_enabled(false));
  layer();
  capture();
  EXPECT_EQ(three_replays(), (Values{-5, -7, -9}));
}

TEST_F(AutocastCacheAcrossCapture, FixEnterInsideTheCapture) {
  layer();
  REMEDY(leave());
  capture();
  EXPECT_EQ(three_replays(), (Values{-5, -7, -9}));
}
