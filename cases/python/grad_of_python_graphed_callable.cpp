// In Python, gradients of a module from make_graphed_callables() are wrong when they are summed over micro-batches.
//
// The report's program. The graphed backward returns a view of the buffer that its graph writes to. Where .grad is
// None, autograd makes that view the .grad, and the replay of the second micro-batch overwrites it before the sum: the
// result is twice the second gradient, and nothing warns. The trigger is that .grad is None and not a tensor of zeros.
//
// Alone:  g++ cases/python/grad_of_python_graphed_callable.cpp $(tools/libtorch --flags) -o grad_of_python_graphed_callable

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a graphed callable's parameter gradients lose the first of two micro-batches",
    .sources = {{"gradient aliasing", "Minimal repro"}, {"gradient aliasing", "Actual output"}},
    .documented = "final_grad == [22.0, 44.0, 66.0, 88.0]",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Verbatim,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepGradients",
               "Give each parameter a .grad tensor before the first backward, and call zero_grad(set_to_none=False) "
               "from then on."},
              {"FixCloneGradients",
               "Call param.register_hook(lambda grad: grad.clone()) on each parameter, so that .grad is never the "
               "graph's own buffer."}},
};

class GradOfPythonGraphedCallable : public PythonProgramTest {
 protected:
  // `begin` comes before the first micro-batch; `shown` is what the test looks at after the second.
  std::string accumulated(const std::string& begin, const std::string& shown) {
    return run(R"py(
import torch

class ScaleByWeight(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1, width + 1, device="cuda", dtype=torch.float32))

    def forward(self, x):
        return x * self.weight

torch.cuda.set_device(0)
torch.manual_seed(1234)
width = 4
model = ScaleByWeight(width).cuda()
sample_x = torch.ones(2, width, device="cuda", dtype=torch.float32)
graphed_model = torch.cuda.make_graphed_callables(model, (sample_x,))
x1 = torch.tensor([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]], device="cuda")
x2 = torch.tensor([[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]], device="cuda")

{begin}
graphed_model(x1).sum().backward()
torch.cuda.synchronize()
first_grad_ptr = model.weight.grad.data_ptr()
first_grad_snapshot = model.weight.grad.detach().clone()

observations = {}
def capture_pre_accumulate(incoming_grad):
    existing_grad = model.weight.grad
    observations["one buffer"] = first_grad_ptr == existing_grad.data_ptr() == incoming_grad.data_ptr()
    observations["existing_value"] = existing_grad.detach().clone()
    observations["incoming_value"] = incoming_grad.detach().clone()
    return incoming_grad

hook_handle = model.weight.register_hook(capture_pre_accumulate)
try:
    graphed_model(x2).sum().backward()
    torch.cuda.synchronize()
finally:
    hook_handle.remove()
final_grad = model.weight.grad.detach().clone()
seen = {shown}
)py",
               {{"begin", begin}, {"shown", shown}});
  }
  const std::string final_grad = "final_grad.cpu().tolist()";
};

constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";

TEST_F(GradOfPythonGraphedCallable, ControlWithoutGraph) {
  EXPECT_EQ(run(R"py(
import torch
weight = torch.arange(1, 5, device="cuda", dtype=torch.float32).requires_grad_()
for x in ([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]], [[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]]):
    (torch.tensor(x, device="cuda") * weight).sum().backward()
seen = weight.grad.tolist()
)py"),
            kSum);
}

// One micro-batch at a time: what each replay leaves in .grad is right.
TEST_F(GradOfPythonGraphedCallable, ControlOneMicroBatch) {
  EXPECT_EQ(run(R"py(
import torch

class ScaleByWeight(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1, width + 1, device="cuda", dtype=torch.float32))

    def forward(self, x):
        return x * self.weight

model = ScaleByWeight(4)
graphed_model = torch.cuda.make_graphed_callables(model, (torch.ones(2, 4, device="cuda"),))
seen = []
for x in ([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]], [[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]]):
    model.weight.grad = None
    graphed_model(torch.tensor(x, device="cuda")).sum().backward()
    seen.append(model.weight.grad.tolist())
)py"),
            "[[3.0, 5.0, 7.0, 9.0], [11.0, 22.0, 33.0, 44.0]]");
}

TEST_F(GradOfPythonGraphedCallable, Reproduces) {
  std::string begin = "model.weight.grad = torch.zeros_like(model.weight)";
  TRIGGER(begin = "model.weight.grad = None");
  REPRODUCES(accumulated(begin, final_grad), "[22.0, 44.0, 66.0, 88.0]", kSum);
}

TEST_F(GradOfPythonGraphedCallable, ReproducesBeforeTheSum) {
  std::string begin = "model.weight.grad = torch.zeros_like(model.weight)";
  TRIGGER(begin = "model.weight.grad = None");
  const std::string shown =
      "first_grad_snapshot.tolist(), *(v if isinstance(v, bool) else v.tolist() for v in observations.values())";
  REPRODUCES(accumulated(begin, shown),
             "([3.0, 5.0, 7.0, 9.0], True, [11.0, 22.0, 33.0, 44.0], [11.0, 22.0, 33.0, 44.0])",
             "([3.0, 5.0, 7.0, 9.0], False, [3.0, 5.0, 7.0, 9.0], [11.0, 22.0, 33.0, 44.0])");
}

// Once there is a .grad, zero_grad(set_to_none=False) leaves it as a tensor of zeros, and autograd adds to that.
TEST_F(GradOfPythonGraphedCallable, FixKeepGradients) {
  std::string begin = "model.weight.grad = None";
  REMEDY(begin = "model.weight.grad = torch.ones_like(model.weight); model.zero_grad(set_to_none=False)");
  EXPECT_EQ(accumulated(begin, final_grad), kSum);
}

// The report's proposal, from outside: what reaches autograd is a copy.
TEST_F(GradOfPythonGraphedCallable, FixCloneGradients) {
  std::string begin = "model.weight.grad = None";
  REMEDY(begin += "; model.weight.register_hook(lambda grad: grad.clone())");
  EXPECT_EQ(accumulated(begin, final_grad), kSum);
}
