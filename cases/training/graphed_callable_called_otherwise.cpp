// A callable from make_graphed_callables() can be called in fewer ways than the module that it was made from.
//
// It takes positional arguments only; a keyword raises. Its gradients cannot be differentiated again. Doing so alone
// raises. As a penalty beside the loss, the second gradient is silently left out, and the gradient of the loss is wrong
// as well: the backward graph runs twice after one forward, which it was not captured for. The callable takes each
// input's requires_grad from the sample: if the sample had none, an input that needs a gradient silently gets none. A
// parameter or an input that no output depends on raises while the callable is made.
//
// Alone:  g++ cases/training/graphed_callable_called_otherwise.cpp $(tools/libtorch --flags) -o graphed_callable_called_otherwise

#include "fixtures/python/graph_counts.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a graphed callable supports no keywords, no double backward and no other requires_grad",
    .sources = {{"make_graphed_callables", "Warnings"}, {"upstream", "pytorch#90941"}},
    .documented =
        "Returned callables do not support higher order differentiation; you must pass its arguments in the same order "
        "and format; The requires_grad state of each Tensor in sample_args must match",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effects = {{"ReproducesGradientPenalty", Effect::SilentlyWrong},
                {"ReproducesOtherRequiresGrad", Effect::SilentlyWrong}},
    .fixes =
        {{"FixPositionalArguments", "Pass the arguments by position, as in sample_args."},
         {"FixFirstOrderOnly",
          "Leave what is differentiated twice out of the graphed callable, or call the module's own forward for it."},
         {"FixSampleThatRequiresGrad", "Give each tensor in sample_args the requires_grad of the real input."},
         {"FixAllowUnusedInput", "Pass allow_unused_input=True to make_graphed_callables()."}},
};

class GraphedCallableCalledOtherwise : public PythonProgramTest {
 protected:
  // The gradient of the input in three steps, and what the process recorded and launched.
  std::string gradients(const std::string& call, const std::string& requires_grad = "True",
                        const std::string& loss = "y.sum()", const std::string& make = "make(Cube())") {
    return run(counting_words() + R"py(
import torch

class Cube(torch.nn.Module):
    unused = False
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0, device="cuda"))
        if self.unused:
            self.other = torch.nn.Parameter(torch.ones(4, device="cuda"))
    def forward(self, x):
        return x * x * x * self.weight

class CubeWithUnused(Cube):
    unused = True

def make(module, **options):
    sample = torch.ones(4, device="cuda", requires_grad={requires_grad})
    return torch.cuda.make_graphed_callables(module, (sample,), **options)

model = {make}
seen = []
for value in (1, 2, 3):
    x = torch.full((4,), float(value), device="cuda", requires_grad=True)
    y = {call}
    {loss}.backward()
    seen.append(x.grad.tolist()[0] if x.grad is not None else None)
seen = f"{seen}, {counts()}"
)py",
               {{"call", call}, {"requires_grad", requires_grad}, {"loss", loss}, {"make", make}});
  }

  const std::string kPenalty = "torch.autograd.grad(y.sum(), x, create_graph=True)[0].sum()";
  const std::string kPenaltyOfModule =
      "torch.autograd.grad(Cube.forward(model, x).sum(), x, create_graph=True)[0].sum()";
};

// A forward and a backward in each step.
constexpr char kFirstOrder[] = "[6.0, 24.0, 54.0], 2 graphs, 6 launches";

TEST_F(GraphedCallableCalledOtherwise, Control) { EXPECT_EQ(gradients("model(x)"), kFirstOrder); }

// Without parameters and inputs that need a gradient, only the forward is a graph.
TEST_F(GraphedCallableCalledOtherwise, ControlNoParameters) {
  EXPECT_EQ(run(counting_words() + R"py(
import torch
model = torch.cuda.make_graphed_callables(torch.nn.ReLU(), (torch.ones(4, device="cuda"),))
seen = [model(torch.full((4,), value, device="cuda")).tolist()[0] for value in (-1.0, 2.0, 3.0)]
seen = f"{seen}, {counts()}"
)py"),
            "[0.0, 2.0, 3.0], 1 graphs, 3 launches");
}

TEST_F(GraphedCallableCalledOtherwise, ReproducesKeyword) {
  std::string call = "model(x)";
  TRIGGER(call = "model(x=x)");
  REPRODUCES(gradients(call), "TypeError: *got an unexpected keyword argument 'x'", kFirstOrder);
}

TEST_F(GraphedCallableCalledOtherwise, ReproducesDoubleBackward) {
  std::string make = "Cube()";
  TRIGGER(make = "make(Cube())");
  REPRODUCES(gradients("model(x)", "True", kPenalty, make),
             "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
             "[12.0, 24.0, 36.0], 0 graphs, 0 launches");
}

// The penalty beside the loss: its gradient is left out, and that of the loss is a third too large. The backward's
// graph runs twice in each step.
TEST_F(GraphedCallableCalledOtherwise, ReproducesGradientPenalty) {
  std::string make = "Cube()";
  TRIGGER(make = "make(Cube())");
  REPRODUCES(gradients("model(x)", "True", "(y.sum() + " + kPenalty + ")", make),
             "[8.0, 32.0, 72.0], 2 graphs, 9 launches", "[18.0, 48.0, 90.0], 0 graphs, 0 launches");
}

TEST_F(GraphedCallableCalledOtherwise, ReproducesOtherRequiresGrad) {
  std::string requires_grad = "True";
  TRIGGER(requires_grad = "False");
  REPRODUCES(gradients("model(x)", requires_grad), "[None, None, None], 2 graphs, 6 launches", kFirstOrder);
}

TEST_F(GraphedCallableCalledOtherwise, ReproducesUnusedParameter) {
  std::string make = "make(Cube())";
  TRIGGER(make = "make(CubeWithUnused())");
  REPRODUCES(gradients("model(x)", "True", "y.sum()", make),
             "RuntimeError: One of the differentiated Tensors appears to not have been used in the graph.*",
             kFirstOrder);
}

TEST_F(GraphedCallableCalledOtherwise, FixPositionalArguments) {
  std::string call = "model(x=x)";
  REMEDY(call = "model(x)");
  EXPECT_EQ(gradients(call), kFirstOrder);
}

// The loss by the callable, the penalty by the module's own forward.
TEST_F(GraphedCallableCalledOtherwise, FixFirstOrderOnly) {
  std::string penalty = kPenalty;
  REMEDY(penalty = kPenaltyOfModule);
  EXPECT_EQ(gradients("model(x)", "True", "(y.sum() + " + penalty + ")"), "[18.0, 48.0, 90.0], 2 graphs, 6 launches");
}

TEST_F(GraphedCallableCalledOtherwise, FixSampleThatRequiresGrad) {
  std::string requires_grad = "False";
  REMEDY(requires_grad = "True");
  EXPECT_EQ(gradients("model(x)", requires_grad), kFirstOrder);
}

TEST_F(GraphedCallableCalledOtherwise, FixAllowUnusedInput) {
  std::string make = "make(CubeWithUnused())";
  REMEDY(make = "make(CubeWithUnused(), allow_unused_input=True)");
  EXPECT_EQ(gradients("model(x)", "True", "y.sum()", make), kFirstOrder);
}
