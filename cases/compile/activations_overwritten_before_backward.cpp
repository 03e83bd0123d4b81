// The backward of a compiled function reads activations that a later replay has overwritten, and no error is raised.
//
// CUDAGraph Trees end a path of graphs when all its outputs are dead, and begin the next one at the root of the tree,
// in the same memory. An activation that only autograd keeps for a pending backward counts as dead. So if a step drops
// the output of model(x) before its backward, as model(x).sum() does, a second call in that step can replay the same
// graph: both backwards then read the activations of the second call. The first steps of the process have to call the
// model once, since steps that call it twice from the start record the second call behind the first. Another compiled
// function, such as one for evaluation, overwrites the activations too. torch.compiler.cudagraph_mark_step_begin()
// before each step changes nothing.
//
// Alone:  g++ cases/compile/activations_overwritten_before_backward.cpp $(tools/libtorch --flags) -o activations_overwritten_before_backward

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a later replay overwrites the activations of a compiled function before its backward",
    .sources = {{"upstream", "pytorch#194124"}},
    .documented = "replays silently overwrote the activations",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "autograd", "several graphs"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepOutputs", "Keep each output of the compiled function until its backward has run."},
              {"FixNoCudaGraphs", "Compile the function without CUDA graphs: without a mode."}},
};

class ActivationsOverwrittenBeforeBackward : public CompiledTest {
 protected:
  // Whether each of three steps has the right gradient of the weight. A step is a number of losses with one backward;
  // five steps with a single loss come first.
  std::string three_steps(const std::string& compile, const std::string& losses, const std::string& begin = "pass") {
    return compiled(R"py(
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((8, 8), 0.125, device="cuda"))
    def forward(self, x):
        return torch.sin(x @ self.weight)

def filled(value):
    return torch.full((4, 8), value, device="cuda")

def evaluate(value):
    with torch.no_grad():
        return evaluated(filled(value)).tolist()[0][0]

kept = []
def keep(output):
    kept.append(output)
    return output

compile = {compile}
module = Model()
model = compile(module)
model_kept = lambda x: keep(model(x))
evaluated = compile(lambda x: x * 2 + 1)

def gradient_is_right(losses, values):
    module.weight.grad = torch.zeros_like(module.weight)
    {begin}
    losses().backward()
    kept.clear()
    y = sum(module(filled(value)).sum() for value in values)
    return torch.allclose(module.weight.grad, torch.autograd.grad(y, module.weight)[0], atol=1e-4)

for step in range(5):
    evaluate(1.0)
for step in range(5):
    assert gradient_is_right(lambda: model(filled(0.2)).sum(), [0.2])
seen = []
for step in range(3):
    right = gradient_is_right(lambda: {losses})
    seen.append("right" if right else "wrong")
seen = ", ".join(seen)
)py",
                    {{"compile", compile}, {"losses", losses}, {"begin", begin}});
  }

  const std::string kPlain = "torch.compile";
  const std::string kGraphs = "lambda f: torch.compile(f, mode='reduce-overhead')";
  const std::string kTwoCalls = "model(filled(0.2)).sum() + model(filled(1.0)).sum(), [0.2, 1.0]";
  const std::string kEvaluation = "model(filled(0.2)).sum() + evaluate(5.0), [0.2]";
};

constexpr char kRight[] = "right, right, right";
constexpr char kWrong[] = "wrong, wrong, wrong";

TEST_F(ActivationsOverwrittenBeforeBackward, Control) { EXPECT_EQ(three_steps(kPlain, kTwoCalls), kRight); }

TEST_F(ActivationsOverwrittenBeforeBackward, Reproduces) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(three_steps(compile, kTwoCalls), kWrong, kRight);
}

TEST_F(ActivationsOverwrittenBeforeBackward, ReproducesWithMarkedSteps) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(three_steps(compile, kTwoCalls, "torch.compiler.cudagraph_mark_step_begin()"), kWrong, kRight);
}

TEST_F(ActivationsOverwrittenBeforeBackward, ReproducesWithAnotherFunction) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(three_steps(compile, kEvaluation), kWrong, kRight);
}

TEST_F(ActivationsOverwrittenBeforeBackward, FixKeepOutputs) {
  std::string call = "model";
  REMEDY(call = "model_kept");
  EXPECT_EQ(
      three_steps(kGraphs, call + "(filled(0.2)).sum() + " + call + "(filled(1.0)).sum() + evaluate(5.0), [0.2, 1.0]"),
      kRight);
}

TEST_F(ActivationsOverwrittenBeforeBackward, FixNoCudaGraphs) {
  std::string compile = kGraphs;
  REMEDY(compile = kPlain);
  EXPECT_EQ(three_steps(compile, kTwoCalls), kRight);
}
