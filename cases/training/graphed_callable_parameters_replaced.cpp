// A module from make_graphed_callables() keeps using its old parameters after they get new memory.
//
// The graphs read parameters at the addresses of the capture, and the callable passes the parameters of that time to
// autograd. load_state_dict(assign=True) replaces the parameters: outputs come from the old ones, and gradients go to
// them. `.to()` keeps the parameters and moves them to other memory: outputs come from the old memory, which other
// tensors may reuse. PyTorch checks for neither.
//
// Alone:  g++ cases/training/graphed_callable_parameters_replaced.cpp $(tools/libtorch --flags) -o graphed_callable_parameters_replaced

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a graphed callable keeps using its old parameters after load_state_dict(assign=True) or to()",
    .sources = {{"make_graphed_callables", "Warnings"},
                {"PyTorch source", "torch/cuda/graphs.py: make_graphed_callables"}},
    .documented = "Assumes module params didn't change since capture.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "torch.load"},
    .features = {"graphed callables"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCopyIntoTheParameters",
               "Call load_state_dict() without assign=True: it copies into the parameters that the graphs read."},
              {"FixReplaceBeforeCapture",
               "Load or move the module before make_graphed_callables(), and make the callable again after a move."}},
};

class GraphedCallableParametersReplaced : public PythonProgramTest {
 protected:
  // Three steps with weight 5 in place of 2: output, gradient of the module's parameter, and gradient of the one that
  // it had before. These are one parameter where none was replaced.
  std::string steps(const std::string& before, const std::string& after) {
    return run(R"py(
import torch

class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0, device="cuda"))
    def forward(self, x):
        return x * self.weight

model = Scale()
old, memory = model.weight, model.weight.detach()  # Keeps the old memory, and what is in it.
five = {"weight": torch.full((4,), 5.0, device="cuda")}
sample = torch.ones(4, device="cuda", requires_grad=True)
{before}
model = torch.cuda.make_graphed_callables(model, (sample,))
{after}
seen = []
for value in (1, 2, 3):
    model.weight.grad = old.grad = None
    y = model(torch.full((4,), float(value), device="cuda", requires_grad=True))
    y.sum().backward()
    seen.append((y.tolist()[0], *(p.grad.tolist()[0] if p.grad is not None else None for p in (model.weight, old))))
)py",
               {{"before", before}, {"after", after}});
  }

  const std::string kCopy = "model.load_state_dict(five)", kAssign = "model.load_state_dict(five, assign=True)";
  const std::string kMove = "model.to('cpu').to('cuda')\nwith torch.no_grad():\n    model.weight.fill_(5)";
  const std::string kStay = "with torch.no_grad():\n    model.weight.fill_(5)";
};

constexpr char kRight[] = "[(5.0, 1.0, 1.0), (10.0, 2.0, 2.0), (15.0, 3.0, 3.0)]";

TEST_F(GraphedCallableParametersReplaced, Control) { EXPECT_EQ(steps("pass", kCopy), kRight); }

TEST_F(GraphedCallableParametersReplaced, Reproduces) {
  std::string after = kCopy;
  TRIGGER(after = kAssign);
  REPRODUCES(steps("pass", after), "[(2.0, None, 1.0), (4.0, None, 2.0), (6.0, None, 3.0)]", kRight);
}

TEST_F(GraphedCallableParametersReplaced, ReproducesMove) {
  std::string after = kStay;
  TRIGGER(after = kMove);
  REPRODUCES(steps("pass", after), "[(2.0, 1.0, 1.0), (4.0, 2.0, 2.0), (6.0, 3.0, 3.0)]", kRight);
}

TEST_F(GraphedCallableParametersReplaced, FixCopyIntoTheParameters) {
  std::string after = kAssign;
  REMEDY(after = kCopy);
  EXPECT_EQ(steps("pass", after), kRight);
}

TEST_F(GraphedCallableParametersReplaced, FixReplaceBeforeCapture) {
  std::string before = "pass", after = kMove;
  REMEDY(before = kMove; after = "pass");
  EXPECT_EQ(steps(before, after), kRight);
}
