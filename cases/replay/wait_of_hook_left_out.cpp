// A wait that a module's hook does for its data is not in the graph, and a replay reads what was there before.
//
// Weights that are offloaded, and a cache that comes over the network, are loaded on a stream of their own while the
// model runs. A hook, or a decorator around the layer, lets the layer wait for its load. A replay calls no Python: it
// starts while the copy is still under way. Right after the capture all is well, since the data was there.
//
// The hook's wait cannot simply be captured. The event was recorded outside of the capture, so CUDA refuses the wait
// (905). Hooks therefore skip it in a capture, or the layer is captured while nothing is loaded. An external wait
// (cudaEventWaitExternal, torch.cuda.Event(external=True)) is a node of the graph that waits for the event's newest
// record in each replay.
//
// A host function holds the load here; in a program its size does.
//
// Alone:  g++ cases/replay/wait_of_hook_left_out.cpp $(tools/libtorch --flags) -o wait_of_hook_left_out

#include <vector>

#include "fixtures/cuda/gate.h"
#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A model's hook waits for its weights to be loaded, and a replay, which runs no hook, reads the old ones",
    .sources = {{"upstream", "vllm#29608"}},
    .documented = "CUDA graph replay can skip the wait_for_layer_load() synchronization, leading to data races",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"side streams", "pinned memory", "events"},
    .features = {"side streams"},
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesWaitInTheCapture", Effect::Raises}},
    .fixes = {{"FixWaitBeforeTheReplay",
               "Before graph.replay(), let its stream wait for every load that a hook of the model would wait for."},
              {"FixExternalWait",
               "Capture an external wait, by torch.cuda.Event(external=True) or cudaEventWaitExternal: each replay "
               "waits for "
               "the event's newest record."}},
    .connections = 8,
};

enum class HookInCapture { Skips, Waits, WaitsExternally };

class WaitOfHookLeftOut : public GpuTest {
 protected:
  using Values = std::vector<double>;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    loading = another_stream();
    weight = at::full({1}, 3.0, at::kCUDA);
    x = at::full({1}, 2.0, at::kCUDA);
    load(3);
    gate.open();
    values(layer(HookInCapture::Skips));  // Loads what reading launches.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // Begins to load a weight, behind the gate.
  void load(int value) {
    source = at::full({1}, 1.0 * value, at::TensorOptions().pinned_memory(true));
    gate.close();
    EXPECT_EQ(gate.hold(loading), cudaSuccess);
    const c10::cuda::CUDAStreamGuard guard(loading);
    weight.copy_(source, /*non_blocking=*/true);
    loaded.record(loading);
  }

  // The layer and its hook.
  at::Tensor layer(HookInCapture hook) {
    const bool captures = capture_status(stream) == "active";
    if (!captures || hook == HookInCapture::Waits) loaded.block(stream);
    if (captures && hook == HookInCapture::WaitsExternally) {
      EXPECT_EQ(cudaStreamWaitEvent(stream, loaded.event(), cudaEventWaitExternal), cudaSuccess);
    }
    return x * weight;
  }
  void capture(HookInCapture hook) {
    graph->capture_begin();
    y = layer(hook);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // Three loads, each followed by a replay.
  Values replays(bool waits_before, bool waits_inside = false) {
    Values all;
    for (const int value : {5, 7, 9}) {
      load(value);
      if (waits_before) loaded.block(stream);
      graph->replay();
      if (waits_before || waits_inside) gate.open();
      all.push_back(values(y)[0]);
      gate.open();
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    return all;
  }

  Gate gate;
  c10::cuda::CUDAStream loading = stream;
  at::cuda::CUDAEvent loaded;
  at::Tensor weight, source, x, y;
};

const std::vector<double> kLoaded = {10, 14, 18}, kOneBehind = {6, 10, 14};

TEST_F(WaitOfHookLeftOut, ControlEager) {
  Values all;
  for (const int value : {5, 7, 9}) {
    load(value);
    const at::Tensor result = layer(HookInCapture::Skips);
    gate.open();
    all.push_back(values(result)[0]);
  }
  EXPECT_EQ(all, kLoaded);
}

// Nothing is loaded between the replays.
TEST_F(WaitOfHookLeftOut, Control) {
  capture(HookInCapture::Skips);
  for (const int value : {5, 7}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(values(y)[0], 3 * value);
  }
}

TEST_F(WaitOfHookLeftOut, Reproduces) {
  capture(HookInCapture::Skips);
  REPRODUCES(replays(/*waits_before=*/!trigger_on()), kOneBehind, kLoaded);
}

TEST_F(WaitOfHookLeftOut, ReproducesWaitInTheCapture) {
  HookInCapture hook = HookInCapture::Skips;
  TRIGGER(hook = HookInCapture::Waits);
  graph->capture_begin();
  const Failure first = failure_of([&] { layer(hook); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen(first, status, end), "905 > invalidated > 901", "ok > active > ok");
}

TEST_F(WaitOfHookLeftOut, FixWaitBeforeTheReplay) {
  capture(HookInCapture::Skips);
  bool waits_before = false;
  REMEDY(waits_before = true);
  EXPECT_EQ(replays(waits_before), kLoaded);
}

TEST_F(WaitOfHookLeftOut, FixExternalWait) {
  HookInCapture hook = HookInCapture::Skips;
  REMEDY(hook = HookInCapture::WaitsExternally);
  capture(hook);
  EXPECT_EQ(replays(/*waits_before=*/false, hook == HookInCapture::WaitsExternally), kLoaded);
}
