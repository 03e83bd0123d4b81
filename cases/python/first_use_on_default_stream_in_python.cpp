// In Python, a tensor first used on the default stream makes backward() in a capture fail.
//
// The document's program: `y = y + 1` runs on the default stream, and the autograd nodes that it makes belong to that
// stream for good. backward() in the capture runs them there and makes the default stream wait for the capturing one,
// which CUDA forbids: 906. From 2.13 on autograd refuses this itself, with a message, before it
// calls CUDA.
//
// Alone:  g++ cases/python/first_use_on_default_stream_in_python.cpp $(tools/libtorch --flags) -o first_use_on_default_stream_in_python

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, backward() in a capture fails for a tensor first used on the default stream",
    .sources = {{"capture failures", "Gradient Tape: Default Stream Conflict"},
                {"capture failures", "Initialization Failures"}},
    .documented =
        "cudaErrorStreamCaptureImplicit(906): operation would make the legacy stream depend on a capturing "
        "blocking stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"autograd", "default stream", "DDP"},
    .features = {"autograd"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixFirstUseOnSideStream",
               "Run the tensor's first operation under torch.cuda.stream(side), then call "
               "torch.cuda.current_stream().wait_stream(side)."},
              {"FixWarmUpOnCapturingStream",
               "Warm up under torch.cuda.stream(s), capture with torch.cuda.graph(g, stream=s), and zero the gradients "
               "before each replay."}},
};

class FirstUseOnDefaultStreamInPython : public PythonProgramTest {
 protected:
  std::string first_use_on(const std::string& chosen) {
    return run(R"py(
import torch
def func(x, y):
    z = x + y
    return z * x

x = torch.randn([2, 2], device="cuda", requires_grad=True)
leaf = y = torch.ones_like(x, requires_grad=True)
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream({chosen}):
    y = y + 1
torch.cuda.current_stream().wait_stream(s)
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        z = func(x, y)
        z.sum().backward()
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.detach().fill_(value)
        graph.replay()
        seen += x.grad.unique().tolist() + leaf.grad.unique().tolist()
)py",
               {{"chosen", chosen}});
  }
};

constexpr char kGradients[] = "[8.0, 3.0, 12.0, 5.0]";  // 2x + y, x, where y is 2.

TEST_F(FirstUseOnDefaultStreamInPython, Control) {
  EXPECT_EQ(run(R"py(
import torch
x = torch.randn([2, 2], device="cuda", requires_grad=True)
leaf = torch.ones_like(x, requires_grad=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, capture_error_mode="global"):
    z = (x + (leaf + 1)) * x
    z.sum().backward()
seen = []
for value in (3, 5):
    x.detach().fill_(value)
    graph.replay()
    seen += x.grad.unique().tolist() + leaf.grad.unique().tolist()
)py"),
            kGradients);
}

TEST_F(FirstUseOnDefaultStreamInPython, Reproduces) {
  std::string chosen = "s";
  TRIGGER(chosen = "torch.cuda.default_stream()");
  RAISED_BY("cuStreamWaitEvent*");
  REPRODUCES(first_use_on(chosen), "906 > 901", kGradients);
}

TEST_F(FirstUseOnDefaultStreamInPython, FixFirstUseOnSideStream) {
  std::string chosen = "torch.cuda.default_stream()";
  REMEDY(chosen = "s");
  EXPECT_EQ(first_use_on(chosen), kGradients);
}

// The warm-up leaves gradients, to which every replay adds.
TEST_F(FirstUseOnDefaultStreamInPython, FixWarmUpOnCapturingStream) {
  std::string chosen = "torch.cuda.default_stream()";
  REMEDY(chosen = "s");
  EXPECT_EQ(run(R"py(
import torch
def func(x, y):
    z = x + y
    return z * x

x = torch.randn([2, 2], device="cuda", requires_grad=True)
y = torch.full_like(x, 2, requires_grad=True)
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream({chosen}):
    for _ in range(3):
        z = func(x, y)
        z.sum().backward()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=s):
    z = func(x, y)
    z.sum().backward()
seen = []
for value in (3, 5):
    x.detach().fill_(value)
    x.grad.zero_()
    y.grad.zero_()
    graph.replay()
    seen += x.grad.unique().tolist() + y.grad.unique().tolist()
)py",
                {{"chosen", chosen}}),
            kGradients);
}
