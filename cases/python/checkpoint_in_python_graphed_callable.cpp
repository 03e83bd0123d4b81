// In Python, make_graphed_callables() fails on a model with reentrant checkpoints.
//
// The document's model. make_graphed_callables() computes gradients with torch.autograd.grad(), and does so first in
// its warm-up. A reentrant checkpoint calls backward() within backward, and checkpoint() refuses under grad(). So it
// fails before anything is captured, and grad() on the model alone fails in the same way.
//
// Alone:  g++ cases/python/checkpoint_in_python_graphed_callable.cpp $(tools/libtorch --flags) -o checkpoint_in_python_graphed_callable

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, make_graphed_callables() fails on a model with reentrant checkpoints",
    .sources = {{"capture failures", "Partial Graphing with Reentrant Activation Checkpointing"}},
    .documented =
        "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
        "'inputs' parameter to .backward()",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"checkpointing", "graphed callables", "autograd"},
    .features = {"checkpointing", "graphed callables"},
    .needs = "gpu python",
    .deadline_s = 180,
    .fixes = {{"FixNonReentrantCheckpoint",
               "Pass use_reentrant=False and preserve_rng_state=False to checkpoint() in models for "
               "make_graphed_callables()."}},
};

class CheckpointInPythonGraphedCallable : public PythonProgramTest {
 protected:
  std::string with(const std::string& step, const std::string& line) {
    return run(R"py(
import torch
import torch.utils.checkpoint

class CheckpointedModel(torch.nn.Module):
    def __init__(self, dim=512, num_blocks=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList([
            torch.nn.Sequential(
                torch.nn.Linear(dim, dim),
                torch.nn.ReLU(),
                torch.nn.Linear(dim, dim),
                torch.nn.ReLU(),
            ) for _ in range(num_blocks)
        ])

    def forward(self, x):
        for block in self.blocks:
            x = {step}
        return x

def plain(x):
    for block in model.blocks:
        x = block(x)
    return x

model = CheckpointedModel(dim=128).cuda()
x = torch.randn((32, 128), device="cuda", requires_grad=True)
try:
    {line}
    equal, sums = [], set()
    for scale in (1, 3):
        x = (torch.randn((32, 128), device="cuda") * scale).requires_grad_()
        y = model(x)
        y.sum().backward()
        expected = plain(x)
        gradient, = torch.autograd.grad(expected.sum(), x)
        equal.append(torch.allclose(y, expected, 1e-3, 1e-6) and torch.allclose(x.grad, gradient, 1e-3, 1e-6))
        sums.add(y.sum().item())
    seen = f"{equal} {len(sums)}"
except Exception as e:
    seen = failure(e)
)py",
               {{"step", step}, {"line", line}});
  }
  static std::string checkpoint(const std::string& use_reentrant) {
    return "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=" + use_reentrant + ", preserve_rng_state=False)";
  }
  const std::string graphed = "model = torch.cuda.make_graphed_callables(model, (x,))";
  const std::string documented =
      "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an *";
  const std::string healthy = "[True, True] 2";
};

TEST_F(CheckpointInPythonGraphedCallable, ControlNoCheckpoint) { EXPECT_EQ(with("block(x)", graphed), healthy); }

TEST_F(CheckpointInPythonGraphedCallable, ControlNoGraph) { EXPECT_EQ(with(checkpoint("True"), "pass"), healthy); }

TEST_F(CheckpointInPythonGraphedCallable, Reproduces) {
  std::string use_reentrant = "False";
  TRIGGER(use_reentrant = "True");
  REPRODUCES(with(checkpoint(use_reentrant), graphed), documented, healthy);
}

TEST_F(CheckpointInPythonGraphedCallable, ReproducesWithoutGraph) {
  std::string use_reentrant = "False";
  TRIGGER(use_reentrant = "True");
  REPRODUCES(with(checkpoint(use_reentrant), "torch.autograd.grad(model(x).sum(), x)"), documented, healthy);
}

TEST_F(CheckpointInPythonGraphedCallable, FixNonReentrantCheckpoint) {
  std::string use_reentrant = "True";
  REMEDY(use_reentrant = "False");
  EXPECT_EQ(with(checkpoint(use_reentrant), graphed), healthy);
}
