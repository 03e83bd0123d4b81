// A module from make_graphed_callables() runs without its graphs after a switch between train() and eval().
//
// The graphs belong to the mode in which the callable was made. In the other mode the module's own forward runs.
// Results are right, at the launch cost of eager code, and no message reports it.
//
// Alone:  g++ cases/training/graphed_callable_in_eval_mode.cpp $(tools/libtorch --flags) -o graphed_callable_in_eval_mode

#include "fixtures/python/graph_counts.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a graphed callable runs without its graphs after a switch between train() and eval()",
    .sources = {{"PyTorch source", "torch/cuda/graphs.py: make_graphed_callables"}, {"upstream", "pytorch#63269"}},
    .documented =
        "If the module's training-or-eval state matches what we graphed, run the graph, otherwise run the original "
        "forward method",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables"},
    .features = {"graphed callables"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::Works,
    .fixes = {{"FixMakeInThatMode", "Switch to the mode in which the module will run before make_graphed_callables()."},
              {"FixOneCallableForEachMode",
               "Make one callable for each mode, of two modules that share their parameters."}},
};

class GraphedCallableInEvalMode : public PythonProgramTest {
 protected:
  // Three calls in eval mode, and the launches that they caused.
  std::string calls(const std::string& make) {
    return run(counting_words() + R"py(
import torch

class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0, device="cuda"))
    def forward(self, x):
        return x * self.weight if self.training else x * self.weight * 10

def graphed(module):
    return torch.cuda.make_graphed_callables(module, (torch.ones(4, device="cuda", requires_grad=True),))

{make}
before = int(counts().split()[2])
seen = [model(torch.full((4,), float(value), device="cuda", requires_grad=True)).tolist()[0] for value in (1, 2, 3)]
seen = f"{seen}, {int(counts().split()[2]) - before} launches"
)py",
               {{"make", make}});
  }

  const std::string kEvalFirst = "model = graphed(Scale().eval())", kTrainFirst = "model = graphed(Scale()).eval()";
};

constexpr char kReplayed[] = "[20.0, 40.0, 60.0], 3 launches";

TEST_F(GraphedCallableInEvalMode, Control) { EXPECT_EQ(calls(kEvalFirst), kReplayed); }

TEST_F(GraphedCallableInEvalMode, Reproduces) {
  std::string make = kEvalFirst;
  TRIGGER(make = kTrainFirst);
  REPRODUCES(calls(make), "[20.0, 40.0, 60.0], 0 launches", kReplayed);
}

TEST_F(GraphedCallableInEvalMode, FixMakeInThatMode) {
  std::string make = kTrainFirst;
  REMEDY(make = kEvalFirst);
  EXPECT_EQ(calls(make), kReplayed);
}

TEST_F(GraphedCallableInEvalMode, FixOneCallableForEachMode) {
  std::string make = kTrainFirst;
  REMEDY(make =
             "train, model = Scale(), Scale()\nmodel.weight = train.weight\ntrain = graphed(train)\n"
             "model = graphed(model.eval())");
  EXPECT_EQ(calls(make), kReplayed);
}
