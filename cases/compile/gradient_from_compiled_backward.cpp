// A .grad that a compiled backward made is overwritten when the next micro-batch begins.
//
// AccumulateGrad keeps the first gradient of a parameter without a copy, so .grad is an output of the backward's graph.
// The next call of the compiled function begins a new generation, and adding to that .grad raises the error of an
// overwritten output. The report's program marks each step and clones the output, as the message advised; neither
// affects .grad. If the first steps of a process do not accumulate, later ones raise nothing: the second replay
// overwrites .grad and then adds to it, so the last micro-batch counts twice and the first is lost. Up to 2.5 the first
// steps raise nothing either. 2.15 has a message of its own for gradients, which advises both fixes below.
//
// Alone:  g++ cases/compile/gradient_from_compiled_backward.cpp $(tools/libtorch --flags) -o gradient_from_compiled_backward

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, gradients of a compiled function are overwritten while they accumulate",
    .sources = {{"upstream", "pytorch#169545"}, {"CUDAGraph Trees", "Limitations"}, {"upstream", "pytorch#96693"}},
    .documented =
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "autograd"},
    .features = {"torch.compile", "autograd"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effects = {{"ReproducesInReplays", Effect::SilentlyWrong}},
    .fixes =
        {{"FixAllocateGradients",
          "Give each parameter a .grad of zeros before the first compiled backward, and zero it in place from then "
          "on: zero_grad(set_to_none=False)."},
         {"FixEagerWarmUp",
          "Run one step of the uncompiled model before the first compiled one, and call "
          "zero_grad(set_to_none=False) from then on."}},
};

class GradientFromCompiledBackward : public CompiledTest {
 protected:
  // The gradient after each of four steps of two micro-batches. `earlier` steps of one micro-batch come before.
  std::string gradients(const std::string& compile, int earlier, const std::string& begin = "pass",
                        const std::string& zero = "model.weight.grad = None") {
    return compiled(R"py(
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, device="cuda"))
    def forward(self, x):
        return x * self.weight

model = Scale()
called = {compile}

def micro_batch(module, value):
    torch.compiler.cudagraph_mark_step_begin()
    output = module(torch.full((8,), float(value), device="cuda")).clone()
    output.sum().backward()

{begin}
for step in range({earlier}):
    {zero}
    micro_batch(called, 9)
seen = []
for step in range(4):
    {zero}
    micro_batch(called, 1)
    micro_batch(called, 2)
    seen.append(model.weight.grad.tolist()[0])
)py",
                    {{"compile", compile}, {"earlier", std::to_string(earlier)}, {"begin", begin}, {"zero", zero}});
  }

  const std::string kPlain = "torch.compile(model)";
  const std::string kGraphs = "torch.compile(model, mode='reduce-overhead')";
};

// 2.15: "accessing gradient tensor output".
constexpr char kOverwritten[] =
    "RuntimeError: Error: accessing *tensor output of CUDAGraphs that has been overwritten by a subsequent run*";
constexpr char kSums[] = "[3.0, 3.0, 3.0, 3.0]";

TEST_F(GradientFromCompiledBackward, Control) { EXPECT_EQ(gradients(kPlain, 0), kSums); }

TEST_F(GradientFromCompiledBackward, Reproduces) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(gradients(compile, 0), kOverwritten, kSums);
}

// The warm-up does not accumulate; the recording does.
TEST_F(GradientFromCompiledBackward, ReproducesInRecording) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(gradients(compile, 1), kOverwritten, kSums);
}

// Neither the warm-up nor the recording accumulates; the replays do.
TEST_F(GradientFromCompiledBackward, ReproducesInReplays) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(gradients(compile, 3), "[4.0, 4.0, 4.0, 4.0]", kSums);
}

TEST_F(GradientFromCompiledBackward, FixAllocateGradients) {
  std::string begin = "pass", zero = "model.weight.grad = None";
  REMEDY(begin = "model.weight.grad = torch.zeros_like(model.weight)");
  REMEDY(zero = "model.zero_grad(set_to_none=False)");
  EXPECT_EQ(gradients(kGraphs, 0, begin, zero), kSums);
}

TEST_F(GradientFromCompiledBackward, FixEagerWarmUp) {
  std::string begin = "pass", zero = "model.weight.grad = None";
  REMEDY(begin = "micro_batch(model, 7)");
  REMEDY(zero = "model.zero_grad(set_to_none=False)");
  EXPECT_EQ(gradients(kGraphs, 0, begin, zero), kSums);
}
