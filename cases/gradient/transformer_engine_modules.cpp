// Graphed callables of TransformerEngine's own modules lose a micro-batch, as those of other modules do.
//
// The other cases of TransformerEngine load two of its files and give them PyTorch's modules. Here the modules are
// TransformerEngine's own, te.Linear, with its CUDA extension, which computes the gradients. Each row of its weight's
// gradient is the report's, 14 27 40 53 over two micro-batches. Delayed weight gradients are those of
// delay_wgrad_compute, and te.Linear marks its weight itself.
//
// The extension is that of 2.20.2, which has the fix. For the release without it, 2.20.2's graph.py is replaced by that
// of 2.18.0, or of the version that `run --transformer-engine` names. `tools/transformer_engine --extension` builds the
// extension.
//
// Alone:  g++ cases/gradient/transformer_engine_modules.cpp $(tools/libtorch --flags) -o transformer_engine_modules

#include "fixtures/python/transformer_engine_modules.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Graphed callables of TransformerEngine's own modules return gradients that later replays overwrite",
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
              {"FixUpgradeTellsParametersFromInputs",
               "Use TransformerEngine 2.19 or newer, and copy the gradients of inputs that are to be kept."},
              {"FixUpgradeWithReusedBuffers",
               "Use TransformerEngine 2.19 or newer with _reuse_graph_input_output_buffers."},
              {"FixUpgradeHoldsParametersWeakly",
               "Use TransformerEngine 2.19 or newer, whose reused buffers include those of parameter gradients."},
              {"FixReadMainGrad",
               "Read main_grad after backward_dw(), not .grad, for parameters marked skip_backward_post_hook."}},
};

class TransformerEngineModules : public TransformerEngineModulesTest {
 protected:
  // A row of the sum over two micro-batches. `mark` comes before the capture.
  std::string accumulated(const std::string& callable, const std::string& mark = "") {
    return python(R"py(
import torch
from engine import *
model = linear()
exec(mark)
called = eval(callable)
model.weight.grad = None
for x in (x1, x2):
    called(x).sum().backward()
    torch.cuda.synchronize()
seen = model.weight.grad[0].tolist()
)py",
                  {{"callable", callable}, {"mark", mark}});
  }

  // At how many addresses the gradients of two micro-batches lie, while both are kept: those of an input, of a weight,
  // and of a weight whose gradient is delayed. TransformerEngine always gives the last a placeholder that all such
  // weights share.
  std::string addresses(const std::string& callable) {
    return python(R"py(
import torch
from engine import *

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plain, self.late = linear(), delayed()
    def forward(self, x):
        return self.plain(x) + self.late(x)

model, grads = Model(), {"input": [], "weight": [], "delayed": []}
sample = lambda: torch.ones(2, 4, device="cuda", requires_grad=True)
called = eval(callable)
model.plain.weight.register_hook(grads["weight"].append)
model.late.weight.register_hook(grads["delayed"].append)
for x in (x1, x2):
    x = x.clone().requires_grad_()
    x.register_hook(grads["input"].append)
    model.zero_grad(set_to_none=True)
    called(x).sum().backward()
torch.cuda.synchronize()
seen = ", ".join(f"{name} {len({grad.data_ptr() for grad in kept})} of {len(kept)}" for name, kept in grads.items())
)py",
                  {{"callable", callable}});
  }

  // The sums of three steps, the first weight of each of two layers, over three micro-batches on Megatron-LM's
  // interleaved schedule: micro-batch b gives each weight of layer l 2 * (10 * (l + 1) + b).
  std::string steps(bool make, const std::string& options = "", bool keep_grad = false) {
    std::string program = kSchedule;
    program += R"py(
call = graphed() if make else {(layer, batch): model[layer] for layer in range(2) for batch in range(3)}
sums = []
for module in model:
    module.weight.grad = torch.ones_like(module.weight) if keep else None
for step in range(3):
    if keep or step:
        for module in model:
            module.zero_grad(set_to_none=False)
    outputs, forwards, backwards = {}, [0, 0], [0, 0]
    for chunk in order:
        layer, done = abs(chunk) - 1, forwards if chunk > 0 else backwards
        batch = done[layer]
        done[layer] += 1
        if chunk > 0:
            x = torch.full((2, 4), 10.0 * (layer + 1) + batch, device="cuda", requires_grad=True)
            outputs[layer, batch] = call[layer, batch](x)
        else:
            outputs[layer, batch].sum().backward()
    sums.append([module.weight.grad[0, 0].item() for module in model])
seen = ", ".join(map(str, sums))
)py";
    return python(program, {{"make", make ? "yes" : ""}, {"options", options}, {"keep", keep_grad ? "yes" : ""}});
  }

  // The static gradients that make_graphed_callables() holds weakly as soon as their graph is captured.
  std::string held_weakly(const std::string& options) {
    std::string program = kSchedule;
    program += R"py(
held, make_weak_ref = [], graph.make_weak_ref
def noted(value):
    weak = make_weak_ref(value)
    if isinstance(value, torch.Tensor):
        assert weak.data_ptr() == value.data_ptr()
        held.append(str(tuple(value.shape)))
    return weak
graph.make_weak_ref = noted
graphed()
seen = f"{len(held)} of shape {', '.join(sorted(set(held)))}" if held else "none"
)py";
    return python(program, {{"options", options}});
  }

  const std::string eager = "model";
  const std::string graphed = "make_graphed_callables(model, (sample(),))";

 private:
  static constexpr char kSchedule[] = R"py(
import torch
from engine import *
model, order = [linear() for layer in range(2)], [1, 2, 1, 2, -2, -1, 1, 2, -2, -1, -2, -1]
def graphed():
    samples = tuple((torch.ones(2, 4, device="cuda", requires_grad=True),) for i in range(6))
    calls = make_graphed_callables(tuple(model), samples, _order=order, **eval(f"dict({options})"))
    return {(i // 3, i % 3): call for i, call in enumerate(calls)}
)py";
};

constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";
constexpr char kTwiceTheSecond[] = "[22.0, 44.0, 66.0, 88.0]";
constexpr char kSteps[] = "[66.0, 126.0], [66.0, 126.0], [66.0, 126.0]";
constexpr char kReused[] = "_reuse_graph_input_output_buffers=True";
constexpr char kMark[] = "model.weight.skip_backward_post_hook = True";

TEST_F(TransformerEngineModules, Control) {
  if (!load_modules(release())) return;
  EXPECT_EQ(accumulated(eager), kSum);
  EXPECT_EQ(steps(false), kSteps);
}

// As in TransformerEngine's own test.
TEST_F(TransformerEngineModules, ControlGradientsAreThere) {
  if (!load_modules(release())) return;
  EXPECT_EQ(steps(true, kReused, true), kSteps);
}

TEST_F(TransformerEngineModules, Reproduces) {
  if (!load_modules(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(accumulated(callable), kTwiceTheSecond, kSum);
}

TEST_F(TransformerEngineModules, ReproducesAddresses) {
  if (!load_modules(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(addresses(callable), "input 1 of 2, weight 1 of 2, delayed 1 of 2",
             "input 2 of 2, weight 2 of 2, delayed 1 of 2");
}

TEST_F(TransformerEngineModules, ReproducesInPipeline) {
  if (!load_modules(release())) return;
  bool make = false;
  TRIGGER(make = true);
  REPRODUCES(steps(make), "[66.0, 126.0], [86.0, 166.0], [86.0, 166.0]", kSteps);
}

TEST_F(TransformerEngineModules, ReproducesInReusedBuffers) {
  if (!load_modules(release())) return;
  bool make = false;
  TRIGGER(make = true);
  const std::string sums = steps(make, kReused);
  record("sums", sums);
  REPRODUCES(sums == kSteps ? "right" : "wrong", "wrong", "right");
}

// A marked parameter, in the release with the fix.
TEST_F(TransformerEngineModules, ReproducesDelayedWgrad) {
  if (!load_modules(kFixed)) return;
  std::string mark;
  TRIGGER(mark = kMark);
  REPRODUCES(accumulated(graphed, mark), kTwiceTheSecond, kSum);
}

TEST_F(TransformerEngineModules, ReproducesWithoutTheClone) {
  if (!load_modules(kFixed)) return;
  std::string options;
  TRIGGER(options = ", clone_param_grads_on_return=False");
  REPRODUCES(accumulated("make_graphed_callables(model, (sample(),)" + options + ")"), kTwiceTheSecond, kSum);
}

TEST_F(TransformerEngineModules, FixUpgrade) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load_modules(version)) return;
  EXPECT_EQ(accumulated(graphed), kSum);
  EXPECT_EQ(steps(true), kSteps);
}

TEST_F(TransformerEngineModules, FixUpgradeTellsParametersFromInputs) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load_modules(version)) return;
  EXPECT_EQ(addresses(graphed), "input 1 of 2, weight 2 of 2, delayed 1 of 2");
}

TEST_F(TransformerEngineModules, FixUpgradeWithReusedBuffers) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load_modules(version)) return;
  EXPECT_EQ(steps(true, kReused), kSteps);
}

TEST_F(TransformerEngineModules, FixUpgradeHoldsParametersWeakly) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load_modules(version)) return;
  EXPECT_EQ(held_weakly(kReused), "6 of shape (4, 4)");
}

// te.Linear with a delayed weight gradient adds it to main_grad in the graph that backward_dw() replays.
TEST_F(TransformerEngineModules, FixReadMainGrad) {
  if (!load_modules(kFixed)) return;
  std::string read = "weight.grad";
  REMEDY(read = "weight.main_grad");
  EXPECT_EQ(python(R"py(
import torch
from engine import *
model = delayed()
make_graphed_callables(model, (sample(),))
weight = model.weight
assert weight.skip_backward_post_hook
weight.main_grad.zero_()
for x in (x1, x2):
    model(x).sum().backward()
    model.backward_dw()
torch.cuda.synchronize()
seen = eval(read)[0].tolist()
)py",
                   {{"read", read}}),
            kSum);
}
