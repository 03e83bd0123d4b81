// A captured training step adds up the gradients of all replays if .grad tensors existed before the capture.
//
// Without earlier gradients, the captured backward allocates .grad in the graph's pool and writes it in each replay.
// With gradients left from the warm-up, it adds to them instead. zero_grad(set_to_none=True) outside the graph does not
// clear them: it drops the program's reference, and the graph goes on adding to the same memory.
//
// Alone:  g++ cases/training/gradients_not_cleared_before_capture.cpp $(tools/libtorch --flags) -o gradients_not_cleared_before_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "In Python, a captured training step adds up the gradients of all replays if they exist before the capture",
    .sources = {{"CUDA semantics: graphs", "Whole-network capture"}},
    .documented =
        "Sets grads to None before capture, so backward() will create .grad attributes with allocations from the "
        "graph's private pool",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer", "autograd"},
    .features = {"autograd"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixClearBeforeCapture", "Call optimizer.zero_grad(set_to_none=True) right before the capture."},
              {"FixZeroInTheGraph",
               "Call optimizer.zero_grad(set_to_none=False) as the first statement of the capture, so that each replay "
               "zeroes the gradients."}},
};

class GradientsNotClearedBeforeCapture : public PythonProgramTest {
 protected:
  // The parameter after each replay of a step of SGD with a learning rate of 1. The gradient is the input.
  std::string replays(const std::string& before, const std::string& first = "pass") {
    return run(R"py(
import torch
weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=1.0)
x = torch.ones(4, device="cuda")

def step():
    (weight * x).sum().backward()
    optimizer.step()

stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for i in range(3):
        optimizer.zero_grad(set_to_none=True)
        step()
torch.cuda.current_stream().wait_stream(stream)
with torch.no_grad():
    weight.zero_()

graph = torch.cuda.CUDAGraph()
{before}
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {first}
        step()
if str(seen) == "ok > ok":
    seen = []
    for value in (1, 2, 3):
        x.fill_(value)
        graph.replay()
        seen.append(weight.tolist()[0])
)py",
               {{"before", before}, {"first", first}});
  }

  const std::string kClear = "optimizer.zero_grad(set_to_none=True)";
};

constexpr char kRight[] = "[-1.0, -3.0, -6.0]";

TEST_F(GradientsNotClearedBeforeCapture, Control) { EXPECT_EQ(replays(kClear), kRight); }

// The sum begins with the gradient of the last warm-up, 1.
TEST_F(GradientsNotClearedBeforeCapture, Reproduces) {
  std::string before = kClear;
  TRIGGER(before = "pass");
  REPRODUCES(replays(before), "[-2.0, -6.0, -13.0]", kRight);
}

TEST_F(GradientsNotClearedBeforeCapture, FixClearBeforeCapture) {
  std::string before = "pass";
  REMEDY(before = kClear);
  EXPECT_EQ(replays(before), kRight);
}

TEST_F(GradientsNotClearedBeforeCapture, FixZeroInTheGraph) {
  std::string first = "pass";
  REMEDY(first = "optimizer.zero_grad(set_to_none=False)");
  EXPECT_EQ(replays("pass", first), kRight);
}
