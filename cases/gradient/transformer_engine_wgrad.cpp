// TransformerEngine's graphed callables keep the alias of a parameter whose weight gradient is delayed, fixed or not.
//
// Since 2.19, TransformerEngine clones gradients, but not those of parameters marked skip_backward_post_hook. For these
// a later call, backward_dw(), computes the real gradient and adds it to the parameter's own main_grad. The same
// holds for all parameters if the caller turns clone_param_grads_on_return off. A program that accumulates such a
// parameter's .grad loses a micro-batch; main_grad is right.
//
// All of graph.py of 2.20.2 is real: the mark, when it is read, the option, and the graph of backward_dw(). The graph
// is modelled, by fixtures/python/host_graph.h, and so is the module with the delayed gradient, since
// TransformerEngine's own needs its CUDA extension. `tools/transformer_engine 2.20.2` fetches what this needs.
//
// Alone:  g++ cases/gradient/transformer_engine_wgrad.cpp $(tools/libtorch --flags) -o transformer_engine_wgrad

#include "fixtures/python/transformer_engine.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "TransformerEngine's fix leaves the gradient of a parameter with a delayed weight gradient aliased",
    .sources = {{"gradient aliasing", "PR fix notes"}, {"upstream", "TransformerEngine#2937"}},
    .documented =
        "preserving the existing aliasing behavior for delayed-wgrad parameters marked with skip_backward_post_hook",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .needs = "host python transformer_engine",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixReadMainGrad",
               "Read main_grad after backward_dw(), not .grad, for parameters marked skip_backward_post_hook."},
              {"FixLeaveTheCloneOn",
               "Do not pass clone_param_grads_on_return=False to TransformerEngine's make_graphed_callables() where "
               ".grad is accumulated."}},
};

class TransformerEngineWgrad : public TransformerEngineTest<PythonTest> {
 protected:
  // The sum over two micro-batches. `mark` comes before the capture, `late` after it; `options` are the function's.
  std::string accumulated(const std::string& mark, const std::string& options = "", const std::string& late = "") {
    return python(R"py(
from engine import *
model = ScaleByWeight(4)
exec(mark)
make_graphed_callables(model, (sample(),), **eval(f"dict({options})"))
exec(late)
model.weight.grad = None
for x in (x1, x2):
    model(x).sum().backward()
seen = model.weight.grad.tolist()
)py",
                  {{"mark", mark}, {"options", options}, {"late", late}});
  }
};

constexpr char kMark[] = "model.weight.skip_backward_post_hook = True";
constexpr char kSum[] = "[14.0, 27.0, 40.0, 53.0]";
constexpr char kTwiceTheSecond[] = "[22.0, 44.0, 66.0, 88.0]";

TEST_F(TransformerEngineWgrad, Control) {
  if (!load(kFixed)) return;
  EXPECT_EQ(accumulated(""), kSum);
}

// The capture decides which gradients are cloned; a later mark changes nothing.
TEST_F(TransformerEngineWgrad, ControlMarkedAfterTheCapture) {
  if (!load(kFixed)) return;
  EXPECT_EQ(accumulated("", "", kMark), kSum);
}

TEST_F(TransformerEngineWgrad, Reproduces) {
  if (!load(kFixed)) return;
  std::string mark;
  TRIGGER(mark = kMark);
  REPRODUCES(accumulated(mark), kTwiceTheSecond, kSum);
}

TEST_F(TransformerEngineWgrad, ReproducesWithoutTheClone) {
  if (!load(kFixed)) return;
  std::string options;
  TRIGGER(options = "clone_param_grads_on_return=False");
  REPRODUCES(accumulated("", options), kTwiceTheSecond, kSum);
}

// backward_dw() of the graphed callable replays the graph of the weight's gradient, and calls the module's hooks.
TEST_F(TransformerEngineWgrad, FixReadMainGrad) {
  if (!load(kFixed)) return;
  std::string read = "weight.grad";
  REMEDY(read = "weight.main_grad");
  EXPECT_EQ(python(R"py(
from engine import *
model = DelayedScale(4)
make_graphed_callables(model, (sample(),))
weight = model.weight
weight.main_grad.zero_()
for x in (x1, x2):
    model(x).sum().backward()
    model.backward_dw()
seen = f"{eval(read).tolist()}, hooks called {model.triggered} times"
)py",
                   {{"read", read}}),
            "[14.0, 27.0, 40.0, 53.0], hooks called 2 times");
}

TEST_F(TransformerEngineWgrad, FixLeaveTheCloneOn) {
  if (!load(kFixed)) return;
  std::string options = "clone_param_grads_on_return=False";
  REMEDY(options = "");
  EXPECT_EQ(accumulated("", options), kSum);
}
