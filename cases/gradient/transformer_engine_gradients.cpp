// TransformerEngine's own make_graphed_callables() loses the first of two micro-batches, as PyTorch's does, up to 2.18.
//
// This is the report's program with TransformerEngine's function in place of PyTorch's. All of graph.py of a wheel is
// real: what it captures, which slots of Graphed.backward() are parameters, and whether their gradients are cloned
// before they are returned. From 2.19 on they are. Tests that name no release run 2.18.0, or what `run
// --transformer-engine` chose; the fix is a newer one, here 2.20.2. Only the graph is modelled, by
// fixtures/python/host_graph.h, which runs the captured operators again into the tensors of the capture;
// transformer_engine_on_gpu has a real one. `tools/transformer_engine 2.18.0` and `2.20.2` fetch what this needs.
//
// Alone:  g++ cases/gradient/transformer_engine_gradients.cpp $(tools/libtorch --flags) -o transformer_engine_gradients

#include "fixtures/python/transformer_engine.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "TransformerEngine's make_graphed_callables() returns parameter gradients that the next replay overwrites",
    .sources = {{"gradient aliasing", "PR fix notes"},
                {"gradient aliasing", "Minimal repro"},
                {"upstream", "TransformerEngine#2937"}},
    .documented =
        "When CUDA graph replay returns parameter grad slots directly from static graph buffers, downstream "
        "autograd users can retain references to buffers that are overwritten by later graph replays",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .needs = "host python transformer_engine",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixUpgrade",
               "Use TransformerEngine 2.19 or newer, and leave clone_param_grads_on_return of "
               "make_graphed_callables() on."},
              {"FixUpgradeOwnsWhatIsKept",
               "Use TransformerEngine 2.19 or newer where a hook keeps a parameter's gradient beyond the next replay."},
              {"FixUpgradeTellsParametersFromInputs",
               "Use TransformerEngine 2.19 or newer, which copies the gradients of parameters alone; clone those of "
               "inputs yourself where you keep them."},
              {"FixKeepGradients",
               "Give each parameter a .grad tensor before the first backward, and call zero_grad(set_to_none=False) "
               "from then on."},
              {"FixCloneGradients",
               "Call param.register_hook(lambda grad: grad.clone()) on each parameter of the modules given to "
               "TransformerEngine's make_graphed_callables()."}},
};

class TransformerEngineGradients : public TransformerEngineTest<PythonTest> {
 protected:
  // The sum over two micro-batches, of the module or of its graphed form. `begin` comes before the first.
  std::string accumulated(const std::string& callable, const std::string& begin = "model.weight.grad = None") {
    return python(R"py(
from engine import *
model = ScaleByWeight(4)
called = eval(callable)
exec(begin)
for x in (x1, x2):
    called(x).sum().backward()
seen = model.weight.grad.tolist()
)py",
                  {{"callable", callable}, {"begin", begin}});
  }

  // The gradient of the first micro-batch, which a hook keeps, after the second.
  std::string kept(const std::string& callable) {
    return python(R"py(
from engine import *
model, grads = ScaleByWeight(4), []
called = eval(callable)
model.weight.register_hook(lambda grad: grads.append(grad))
for x in (x1, x2):
    model.zero_grad(set_to_none=True)
    called(x).sum().backward()
seen = grads[0].tolist()
)py",
                  {{"callable", callable}});
  }

  // Who owns the memory of the gradients of an input, a parameter, and a parameter whose weight gradient is delayed.
  // It is the graph, if the gradient of the next replay has the same address while both are kept.
  std::string owners(const std::string& callable) {
    return python(R"py(
import torch
from engine import *

class Model(ScaleByWeight):
    def __init__(self, width):
        super().__init__(width)
        self.delayed = torch.nn.Parameter(torch.zeros(width))
        self.delayed.skip_backward_post_hook = True
    def forward(self, x):
        return super().forward(x) + self.delayed

model, grads = Model(4), {"input": [], "weight": [], "delayed": []}
sample = lambda: torch.ones(2, 4, requires_grad=True)
called = eval(callable)
for name in ("weight", "delayed"):
    getattr(model, name).register_hook(grads[name].append)
for x in (x1, x2):
    x = x.clone().requires_grad_()
    x.register_hook(grads["input"].append)
    model.zero_grad(set_to_none=True)
    called(x).sum().backward()
seen = ", ".join(f"{name} {'the graph' if first.data_ptr() == second.data_ptr() else 'its own'}"
                 for name, (first, second) in grads.items())
)py",
                  {{"callable", callable}});
  }

  const std::string eager = "model";
  const std::string graphed = "make_graphed_callables(model, (sample(),))";
};

constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";
constexpr char kFirst[] = "[3.0, 5.0, 7.0, 9.0]";

TEST_F(TransformerEngineGradients, Control) {
  if (!load(release())) return;
  EXPECT_EQ(accumulated(eager), kSum);
  EXPECT_EQ(kept(eager), kFirst);
}

// One micro-batch at a time: what each replay leaves in .grad is right.
TEST_F(TransformerEngineGradients, ControlOneMicroBatch) {
  if (!load(release())) return;
  EXPECT_EQ(python(R"py(
from engine import *
model = ScaleByWeight(4)
make_graphed_callables(model, (sample(),))
seen = []
for x in (x1, x2, x1):
    model.weight.grad = None
    model(x).sum().backward()
    seen.append(model.weight.grad.tolist())
)py"),
            "[[3.0, 5.0, 7.0, 9.0], [11.0, 22.0, 33.0, 44.0], [3.0, 5.0, 7.0, 9.0]]");
}

TEST_F(TransformerEngineGradients, Reproduces) {
  if (!load(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(accumulated(callable), "[22.0, 44.0, 66.0, 88.0]", kSum);
}

TEST_F(TransformerEngineGradients, ReproducesInWhatAHookKeeps) {
  if (!load(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(kept(callable), "[11.0, 22.0, 33.0, 44.0]", kFirst);
}

TEST_F(TransformerEngineGradients, ReproducesOwners) {
  if (!load(release())) return;
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(owners(callable), "input the graph, weight the graph, delayed the graph",
             "input its own, weight its own, delayed its own");
}

TEST_F(TransformerEngineGradients, FixUpgrade) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(accumulated(graphed), kSum);
}

TEST_F(TransformerEngineGradients, FixUpgradeOwnsWhatIsKept) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(kept(graphed), kFirst);
}

// A parameter's gradient is a copy; an input's is not, nor is that of a marked parameter.
TEST_F(TransformerEngineGradients, FixUpgradeTellsParametersFromInputs) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(owners(graphed), "input the graph, weight its own, delayed the graph");
}

// If .grad exists, zero_grad(set_to_none=False) keeps the tensor and sets it to zeros, and autograd adds to it.
TEST_F(TransformerEngineGradients, FixKeepGradients) {
  if (!load(release())) return;
  std::string begin = "model.weight.grad = None";
  REMEDY(begin = "model.weight.grad = model.weight.detach().clone(); model.zero_grad(set_to_none=False)");
  EXPECT_EQ(accumulated(graphed, begin), kSum);
}

TEST_F(TransformerEngineGradients, FixCloneGradients) {
  if (!load(release())) return;
  std::string begin = "model.weight.grad = None";
  REMEDY(begin += "; model.weight.register_hook(lambda grad: grad.clone())");
  EXPECT_EQ(accumulated(graphed, begin), kSum);
}
