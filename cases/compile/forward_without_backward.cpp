// A compiled function whose forward passes wait for a backward never runs as a CUDA graph.
//
// With gradients enabled, CUDAGraph Trees begin a new step only after a backward. Losses that are added up without
// item() and without torch.no_grad() keep every forward pass waiting, so PyTorch takes all calls for one step: each is
// a warm-up, and nothing is recorded. One warning reports it. With item() the calls are recorded, but from 2.9 to 2.14
// several times: twelve calls make six graphs, without a warning. That comes with graph_partition, which is on by
// default from 2.9 on; tried with 2.11, TORCHINDUCTOR_GRAPH_PARTITION=0 makes one graph. The warning advises
// torch.compiler.cudagraph_mark_step_begin() before each call. That is right if no backward follows. If one follows,
// its saved tensors have been overwritten, and it raises. Later releases (2.13) word the warning differently.
//
// Alone:  g++ cases/compile/forward_without_backward.cpp $(tools/libtorch --flags) -o forward_without_backward

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function whose forward passes wait for a backward never uses a CUDA graph",
    .sources = {{"upstream", "pytorch#176846"}, {"CUDAGraph Trees", "Limitations"}},
    .documented = "Unable to hit fast path of CUDAGraphs because of pending, uninvoked backwards.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "autograd"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Warns,
    .effects = {{"ReproducesMarkedStepsBeforeBackward", Effect::Raises}, {"ReproducesWithItem", Effect::Leaks}},
    .fixes = {{"FixNoGrad", "Run forward passes that need no gradients under torch.no_grad()."},
              {"FixMarkSteps",
               "Call torch.compiler.cudagraph_mark_step_begin() before each call, if no backward of an earlier call "
               "follows."}},
};

class ForwardWithoutBackward : public CompiledTest {
 protected:
  std::string evaluate(const std::string& context, const std::string& loss, const std::string& begin = "pass") {
    return compiled(kModel + R"py(
total = 0.0
with {context}():
    for i in range(12):
        {begin}
        total = total + {loss}
expected = sum(torch.sin(inputs(i) @ module.weight).sum().item() for i in range(12))
seen = f"{'right' if abs(float(total) - expected) < 1e-3 else 'wrong'}, {counts()}, {warning()}"
)py",
                    {{"context", context}, {"loss", loss}, {"begin", begin}});
  }

  // One backward of three forward passes.
  std::string train(const std::string& begin) {
    return compiled(kModel + R"py(
right = True
for step in range(4):
    module.weight.grad = torch.zeros_like(module.weight)
    total = 0.0
    for i in range(3):
        {begin}
        total = total + model(inputs(i)).sum()
    total.backward()
    y = sum(torch.sin(inputs(i) @ module.weight).sum() for i in range(3))
    right &= torch.allclose(module.weight.grad, torch.autograd.grad(y, module.weight)[0], atol=1e-4)
seen = "right" if right else "wrong"
)py",
                    {{"begin", begin}});
  }

  const std::string kModel = R"py(
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((8, 8), 0.125, device="cuda"))
    def forward(self, x):
        return torch.sin(x @ self.weight)

def inputs(i):
    return torch.full((4, 8), 0.1 * (i + 1), device="cuda")

module = Model()
model = torch.compile(module, mode="reduce-overhead")
)py";
  const std::string kMark = "torch.compiler.cudagraph_mark_step_begin()";
};

constexpr char kOverwritten[] =
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run*";
constexpr char kReplayed[] = "right, 1 graphs, 11 launches, no warning";

TEST_F(ForwardWithoutBackward, Control) {
  EXPECT_EQ(evaluate("torch.no_grad", "model(inputs(i)).sum().item()"), kReplayed);
}

TEST_F(ForwardWithoutBackward, Reproduces) {
  std::string context = "torch.no_grad";
  TRIGGER(context = "torch.enable_grad");
  // "of pending, uninvoked backwards"; 2.13: "outputs from a previous step still require backward".
  REPRODUCES(evaluate(context, "model(inputs(i)).sum()"),
             "right, 0 graphs, 0 launches, Unable to hit fast path of CUDAGraphs because * backward*", kReplayed);
}

// Each loss is read, and none is kept.
TEST_F(ForwardWithoutBackward, ReproducesWithItem) {
  std::string context = "torch.no_grad";
  TRIGGER(context = "torch.enable_grad");
  REPRODUCES(evaluate(context, "model(inputs(i)).sum().item()"), "right, 6 graphs, 11 launches, no warning", kReplayed);
}

// The warning's advice in a program that runs a backward.
TEST_F(ForwardWithoutBackward, ReproducesMarkedStepsBeforeBackward) {
  std::string begin = "pass";
  TRIGGER(begin = kMark);
  REPRODUCES(train(begin), kOverwritten, "right");
}

TEST_F(ForwardWithoutBackward, FixNoGrad) {
  std::string context = "torch.enable_grad";
  REMEDY(context = "torch.no_grad");
  EXPECT_EQ(evaluate(context, "model(inputs(i)).sum()"), kReplayed);
}

TEST_F(ForwardWithoutBackward, FixMarkSteps) {
  std::string begin = "pass";
  REMEDY(begin = kMark);
  EXPECT_EQ(evaluate("torch.enable_grad", "model(inputs(i)).sum()", begin), kReplayed);
}
