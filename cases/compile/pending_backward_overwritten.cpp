// The backward of a compiled function reads activations that have been overwritten, and no error is raised.
//
// CUDAGraph Trees end a path of graphs once all its outputs are dead. Before 2.15 an activation that only autograd
// keeps, for a backward that is still to come, counts as dead. So if a step calls a model twice and drops both outputs
// before their backward, as model(x).sum() does, the second call starts again at the root of the tree. The memory of
// the activations is then free for the next recording, which overwrites them. This needs a process whose first steps
// call the model once, and a model that saves nothing but activations: here a product of two weights, as in a low-rank
// adapter. If it also saves its input for the backward, the path stays alive. For the same reason a step with one call
// can raise, if the weights are plain arguments of the function: "Detected 1 tensor(s) in the cudagraph pool not
// tracked as outputs". From 2.2 to 2.4 the program here raises, too: "These live storage data ptrs are in the cudagraph
// pool". There the compiled graph takes the weights before x, in the order of their use; in 2.1, or with the weights as
// parameters of a module, it takes x first and overwrites. With inline_inbuilt_nn_modules, which 2.5 turns on, 2.4 does
// as 2.5. Tried with 2.11 alone: the gradients are right if both outputs are kept until the backward is over.
//
// Alone:  g++ cases/compile/pending_backward_overwritten.cpp $(tools/libtorch --flags) -o pending_backward_overwritten

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the activations of a compiled function are overwritten before its backward",
    .sources = {{"upstream", "pytorch#194124"}},
    .documented = "replays silently overwrote the activations",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "autograd", "several graphs"},
    .features = {"torch.compile", "autograd"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixNoCudaGraphs",
               "Compile a function that a step calls several times before its backward without a mode."}},
};

class PendingBackwardOverwritten : public CompiledTest {
 protected:
  // Whether each of three steps with two calls has right gradients. Four steps with one call come first.
  std::string three_steps(const std::string& compile) {
    return compiled(R"py(
torch.manual_seed(1)
a, b = (torch.nn.Parameter(torch.randn(64, 64, device="cuda") * 0.2) for i in range(2))

def filled(value):
    return torch.linspace(value, 2 * value, 256, device="cuda").reshape(4, 64)

def forward(x):
    return torch.sin(a @ b) + x[:1]

model = {compile}

def gradients_are_right(loss):
    a.grad, b.grad = torch.zeros_like(a), torch.zeros_like(b)
    loss(model).backward()
    expected = torch.autograd.grad(loss(forward), (a, b))
    return all(torch.allclose(p.grad, e, 1e-3, 1e-3) for p, e in zip((a, b), expected))

once = lambda model: model(filled(0.2)).sum()
twice = lambda model: model(filled(0.2)).sum() + model(filled(1.0)).sum()
assert all(gradients_are_right(once) for step in range(4))
seen = ", ".join("right" if gradients_are_right(twice) else "wrong" for step in range(3))
)py",
                    {{"compile", compile}});
  }

  const std::string kPlain = "torch.compile(forward)";
  const std::string kGraphs = "torch.compile(forward, mode='reduce-overhead')";
};

constexpr char kRight[] = "right, right, right";

TEST_F(PendingBackwardOverwritten, Control) { EXPECT_EQ(three_steps(kPlain), kRight); }

TEST_F(PendingBackwardOverwritten, Reproduces) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(three_steps(compile), "wrong, wrong, wrong", kRight);
}

TEST_F(PendingBackwardOverwritten, FixNoCudaGraphs) {
  std::string compile = kGraphs;
  REMEDY(compile = kPlain);
  EXPECT_EQ(three_steps(compile), kRight);
}
