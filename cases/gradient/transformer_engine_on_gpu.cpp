// On a GPU, TransformerEngine's graphed callables lose a micro-batch up to 2.18, and gradients in reused buffers
// sooner.
//
// This is the report's program with TransformerEngine's own function, and TransformerEngine's own schedule of an
// interleaved pipeline. With _reuse_graph_input_output_buffers, 2.18 holds the gradients of an earlier callable weakly,
// including those of parameters, and returns them as they are. Their memory goes to a later capture, whose replay
// overwrites .grad within the step. 2.20.2 holds each parameter's gradient weakly at once, and returns a copy. Both
// need PyTorch 2.5 for that: before, torch.as_tensor() copies what they hold weakly to the host, and they raise "Data
// pointer mismatch". graph.py and utils.py are the wheels' own. TransformerEngine's CUDA extension is not used, since
// the modules are PyTorch's. Tests that name no release run 2.18.0, or what `run --transformer-engine` chose.
//
// Alone:  g++ cases/gradient/transformer_engine_on_gpu.cpp $(tools/libtorch --flags) -o transformer_engine_on_gpu

#include "fixtures/python/transformer_engine_pipeline.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "On a GPU, TransformerEngine's graphed callables return gradients that replays of others overwrite as well",
    .sources = {{"gradient aliasing", "PR fix notes"},
                {"gradient aliasing", "Minimal repro"},
                {"upstream", "TransformerEngine#2937"}},
    .documented =
        "When CUDA graph replay returns parameter grad slots directly from static graph buffers, downstream "
        "autograd users can retain references to buffers that are overwritten by later graph replays",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "autograd", "several graphs", "memory pools"},
    .features = {"graphed callables", "autograd"},
    .needs = "gpu python transformer_engine",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixUpgrade",
               "Use TransformerEngine 2.19 or newer, and leave clone_param_grads_on_return of "
               "make_graphed_callables() on."},
              {"FixUpgradeWithReusedBuffers",
               "Use TransformerEngine 2.19 or newer with _reuse_graph_input_output_buffers."},
              {"FixUpgradeHoldsParametersWeakly",
               "Use TransformerEngine 2.19 or newer, whose reused buffers include those of parameter gradients."},
              {"FixReadMainGrad",
               "Read main_grad after backward_dw(), not .grad, for parameters marked skip_backward_post_hook."}},
};

class TransformerEngineOnGpu : public TransformerEnginePipelineTest<GpuPythonTest> {
 protected:
  std::string accumulated(const std::string& callable) {
    return python(R"py(
import torch
from engine import *
model = ScaleByWeight(4)
called = eval(callable)
model.weight.grad = None
for x in (x1, x2):
    called(x).sum().backward()
    torch.cuda.synchronize()
seen = model.weight.grad.tolist()
)py",
                  {{"callable", callable}});
  }
  const std::string eager = "model";
  const std::string graphed = "make_graphed_callables(model, (sample(),))";
};

constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";
constexpr char kReused[] = "_reuse_graph_input_output_buffers=True";

TEST_F(TransformerEngineOnGpu, Control) {
  if (!load(release())) return;
  EXPECT_EQ(accumulated(eager), kSum);
  EXPECT_EQ(steps({.graphed = false}), kRightSteps);
}

// As in TransformerEngine's own test.
TEST_F(TransformerEngineOnGpu, ControlGradientsAreThere) {
  if (!load(release())) return;
  EXPECT_EQ(steps({.options = kReused, .keep_grad = true}), kRightSteps);
}

TEST_F(TransformerEngineOnGpu, Reproduces) {
  if (!load(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(accumulated(callable), "[22.0, 44.0, 66.0, 88.0]", kSum);
}

TEST_F(TransformerEngineOnGpu, ReproducesInPipeline) {
  if (!load(release())) return;
  Pipeline pipeline{.graphed = false};
  TRIGGER(pipeline.graphed = true);
  REPRODUCES(steps(pipeline), "[66.0, 126.0], [86.0, 166.0], [86.0, 166.0]", kRightSteps);
}

// Even the first step is wrong: a later capture's output lies in the memory of the last layer's gradient.
TEST_F(TransformerEngineOnGpu, ReproducesInReusedBuffers) {
  if (!load(release())) return;
  Pipeline pipeline{.graphed = false};
  TRIGGER(pipeline = {.options = kReused});
  const std::string sums = steps(pipeline), first = sums.substr(0, sums.find(']') + 1);
  record("sums", sums);
  REPRODUCES(first == "[66.0, 126.0]" ? "right in the first step" : "wrong in the first step",
             "wrong in the first step", "right in the first step");
}

// A marked parameter, in the release with the fix.
TEST_F(TransformerEngineOnGpu, ReproducesDelayedWgrad) {
  if (!load(kFixed)) return;
  std::string mark = "False";
  TRIGGER(mark = "True");
  REPRODUCES(accumulated("setattr(model.weight, 'skip_backward_post_hook', " + mark + ") or " + graphed),
             "[22.0, 44.0, 66.0, 88.0]", kSum);
}

TEST_F(TransformerEngineOnGpu, FixUpgrade) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(accumulated(graphed), kSum);
  EXPECT_EQ(steps({}), kRightSteps);
}

TEST_F(TransformerEngineOnGpu, FixUpgradeWithReusedBuffers) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(steps({.options = kReused}), kRightSteps);
}

TEST_F(TransformerEngineOnGpu, FixUpgradeHoldsParametersWeakly) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(held_weakly(kReused, "yes"), "6 of shape (4,), at fewer addresses");
}

TEST_F(TransformerEngineOnGpu, FixReadMainGrad) {
  if (!load(kFixed)) return;
  std::string read = "weight.grad";
  REMEDY(read = "weight.main_grad");
  EXPECT_EQ(python(R"py(
from engine import *
model = DelayedScale(4)
make_graphed_callables(model, (sample(),))
weight = model.weight
weight.main_grad.zero_()
for x in (x1, x2):
    model(x).sum().backward()
    model.backward_dw()
seen = eval(read).tolist()
)py",
                   {{"read", read}}),
            kSum);
}
