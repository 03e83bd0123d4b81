// Of a module from make_graphed_callables(), the hooks of inner modules do not run.
//
// The graphed forward replaces the module's own, so calling the module runs its hooks and then a replay; the inner
// modules are never called. Four forward hooks on a model of three layers count four calls without graphs, and one
// with. Nothing warns: hooks may not be there when the callable is made, and may be registered afterwards.
//
// Alone:  g++ cases/replay/inner_hooks_of_graphed_callable.cpp $(tools/libtorch --flags) -o inner_hooks_of_graphed_callable

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, hooks of a graphed callable's inner modules are registered and never called",
    .sources = {{"CUDA graph guide", "Numerical Errors"},
                {"PyTorch documentation", "torch.cuda.make_graphed_callables"}},
    .documented = "hooks registered: 4, hooks called: 1",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables"},
    .features = {"graphed callables"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixGraphInnerModules",
               "Make graphed callables of the inner modules whose hooks have to run, and not of the one around them."}},
};

class InnerHooksOfGraphedCallable : public PythonProgramTest {
 protected:
  // Calls in three steps with other inputs, and what the steps give.
  std::string hooks_called(const std::string& make_graphs) {
    return run(R"py(
import torch

class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((1,), 2.0, device="cuda"))

    def forward(self, x):
        return x * self.weight

model = torch.nn.Sequential(Scale(), Scale(), Scale())
sample = torch.ones(1, device="cuda", requires_grad=True)
{make_graphs}
calls = 0
def hook(module, inputs, output):
    global calls
    calls += 1
hooks = [module.register_forward_hook(hook) for module in model.modules()]
seen = [len(hooks)]
for value in (1, 2, 3):
    calls = 0
    y = model(torch.full((1,), float(value), device="cuda", requires_grad=True))
    seen.append((calls, y.item()))
)py",
               {{"make_graphs", make_graphs}});
  }
  const std::string all = "[4, (4, 8.0), (4, 16.0), (4, 24.0)]";
  const std::string top_level = "[4, (1, 8.0), (1, 16.0), (1, 24.0)]";
};

TEST_F(InnerHooksOfGraphedCallable, ControlEager) { EXPECT_EQ(hooks_called(""), all); }

TEST_F(InnerHooksOfGraphedCallable, Reproduces) {
  std::string make_graphs;
  TRIGGER(make_graphs = "torch.cuda.make_graphed_callables(model, (sample,))");
  REPRODUCES(hooks_called(make_graphs), top_level, all);
}

TEST_F(InnerHooksOfGraphedCallable, FixGraphInnerModules) {
  std::string make_graphs = "torch.cuda.make_graphed_callables(model, (sample,))";
  REMEDY(make_graphs =
             "torch.cuda.make_graphed_callables(tuple(model), tuple((torch.ones_like(sample, requires_grad=True),) for "
             "_ in model))");
  EXPECT_EQ(hooks_called(make_graphs), all);
}
