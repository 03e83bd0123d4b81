// PyTorch's own make_graphed_callables() loses the first of two micro-batches on a machine without a GPU as well.
//
// The report's program with "cpu" for "cuda". Nothing of the defect is CUDA's: Graphed.backward() hands out its static
// gradients as detached tensors, AccumulateGrad makes the first of them the .grad, and the next replay writes to it.
// All three are PyTorch's own code here. Modelled is the graph alone, by fixtures/python/host_graph.h, which runs the
// captured operators again into the tensors of the capture; grad_of_python_graphed_callable has the real one.
//
// Alone:  g++ cases/gradient/graphed_callable_on_host.cpp $(tools/libtorch --flags) -o graphed_callable_on_host

#include "fixtures/python/host_graph.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "PyTorch's make_graphed_callables() loses the first of two micro-batches, whatever replays its graphs",
    .sources = {{"gradient aliasing", "Bug description"},
                {"gradient aliasing", "Minimal repro"},
                {"gradient aliasing", "Actual output"}},
    .documented = "final_grad == [22.0, 44.0, 66.0, 88.0]",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .needs = "host python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepGradients",
               "Give each parameter a .grad tensor before the first backward, and call zero_grad(set_to_none=False) "
               "from then on."},
              {"FixCloneGradients",
               "Call param.register_hook(lambda grad: grad.clone()) on each parameter of the module given to "
               "make_graphed_callables()."}},
};

class GraphedCallableOnHost : public PythonTest {
 protected:
  // `callable` is the module or its graphed form, `begin` comes before the first micro-batch, and `shown` is what the
  // test looks at after the second.
  std::string accumulated(const std::string& callable, const std::string& begin, const std::string& shown) {
    return python(kHostGraph + std::string(R"py(
class ScaleByWeight(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1, width + 1, dtype=torch.float32))

    def forward(self, x):
        return x * self.weight

computed = []  # By every torch.autograd.grad(): the last ones are the static gradients.
autograd_grad = torch.autograd.grad
def grad(**arguments):
    computed.append(autograd_grad(**arguments))
    return computed[-1]

width = 4
model = ScaleByWeight(width)
sample_x = torch.ones(2, width)
torch.autograd.grad = grad
graphed_model = eval(callable)
torch.autograd.grad = autograd_grad
static_grad = computed[-1][0] if computed else None
x1 = torch.tensor([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])
x2 = torch.tensor([[10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]])

exec(begin)
graphed_model(x1).sum().backward()
first_grad_ptr = model.weight.grad.data_ptr()
first_grad_snapshot = model.weight.grad.detach().clone()

observations = {}
def capture_pre_accumulate(incoming_grad):
    existing_grad = model.weight.grad
    observations["one buffer"] = first_grad_ptr == existing_grad.data_ptr() == incoming_grad.data_ptr()
    observations["existing_value"] = existing_grad.tolist()
    observations["incoming_value"] = incoming_grad.tolist()
    observations["incoming"] = (
        "the static gradient" if incoming_grad is static_grad else
        "its memory" if static_grad is not None and incoming_grad.data_ptr() == static_grad.data_ptr() else "its own")
    observations["detached"] = not incoming_grad.requires_grad
    return incoming_grad

hook_handle = model.weight.register_hook(capture_pre_accumulate)
try:
    graphed_model(x2).sum().backward()
finally:
    hook_handle.remove()
final_grad = model.weight.grad.tolist()
seen = eval(shown)
)py"),
                  {{"callable", callable}, {"begin", begin}, {"shown", shown}});
  }
  const std::string eager = "model";
  const std::string graphed = "torch.cuda.make_graphed_callables(model, (sample_x,))";
};

constexpr char kNone[] = "model.weight.grad = None";
constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";

TEST_F(GraphedCallableOnHost, Control) { EXPECT_EQ(accumulated(eager, kNone, "final_grad"), kSum); }

// One micro-batch at a time: what each replay leaves in .grad is right.
TEST_F(GraphedCallableOnHost, ControlOneMicroBatch) {
  EXPECT_EQ(accumulated(graphed, kNone, R"py([
    (setattr(model.weight, "grad", None), graphed_model(x).sum().backward(), model.weight.grad.tolist())[-1]
    for x in (x1, x2, x1)])py"),
            "[[3.0, 5.0, 7.0, 9.0], [11.0, 22.0, 33.0, 44.0], [3.0, 5.0, 7.0, 9.0]]");
}

TEST_F(GraphedCallableOnHost, Reproduces) {
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(accumulated(callable, kNone, "final_grad"), "[22.0, 44.0, 66.0, 88.0]", kSum);
}

TEST_F(GraphedCallableOnHost, ReproducesBeforeTheSum) {
  std::string callable = eager;
  TRIGGER(callable = graphed);
  const std::string shown =
      "(first_grad_snapshot.tolist(), *(observations[k] for k in ('one buffer', 'existing_value', 'incoming_value')))";
  REPRODUCES(accumulated(callable, kNone, shown),
             "([3.0, 5.0, 7.0, 9.0], True, [11.0, 22.0, 33.0, 44.0], [11.0, 22.0, 33.0, 44.0])",
             "([3.0, 5.0, 7.0, 9.0], False, [3.0, 5.0, 7.0, 9.0], [11.0, 22.0, 33.0, 44.0])");
}

// What Graphed.backward() returns is not the static gradient, but a detached tensor in its memory.
TEST_F(GraphedCallableOnHost, ReproducesDetachedView) {
  std::string callable = eager;
  TRIGGER(callable = graphed);
  REPRODUCES(accumulated(callable, kNone, "f\"{observations['incoming']}, detached {observations['detached']}\""),
             "its memory, detached True", "its own, detached True");
}

// Once there is a .grad, zero_grad(set_to_none=False) leaves it as a tensor of zeros, and autograd adds to that.
TEST_F(GraphedCallableOnHost, FixKeepGradients) {
  std::string begin = kNone;
  REMEDY(begin = "model.weight.grad = torch.ones_like(model.weight); model.zero_grad(set_to_none=False)");
  EXPECT_EQ(accumulated(graphed, begin, "final_grad"), kSum);
}

// The report's proposal, from outside: what reaches autograd is a copy.
TEST_F(GraphedCallableOnHost, FixCloneGradients) {
  std::string begin = kNone;
  REMEDY(begin += "; model.weight.register_hook(lambda grad: grad.clone())");
  EXPECT_EQ(accumulated(graphed, begin, "final_grad"), kSum);
}
