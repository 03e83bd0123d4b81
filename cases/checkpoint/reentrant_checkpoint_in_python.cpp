// The reentrant torch.utils.checkpoint takes no keyword arguments and refuses autograd.grad(), without a GPU as well.
//
// The document compares the two kinds: the non-reentrant one supports autograd.grad(), torch.compile and keyword
// arguments. So it does, in Controls and wherever a trigger is left out. That make_graphed_callables() calls grad() is
// seen in the traceback of the refusal. The function is PyTorch's own, and only the CUDA graphs that it makes are
// fixtures/python/host_graph.h.
//
// Models are compiled with the backend aot_eager. Dynamo and AOTAutograd, which deal with checkpoints, are the same in
// front of Inductor; that one needs a C++ compiler on the host and took above a minute.
//
// Alone:  g++ cases/checkpoint/reentrant_checkpoint_in_python.cpp $(tools/libtorch --flags) -o reentrant_checkpoint_in_python

#include "fixtures/python/host_graph.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, reentrant checkpoints take no keyword arguments and refuse autograd.grad() on the host too",
    .sources = {{"capture failures", "Partial Graphing with Reentrant Activation Checkpointing"}},
    .documented =
        "Non-reentrant checkpointing supports autograd.grad(), works correctly with torch.compile, and "
        "handles keyword arguments",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"checkpointing", "graphed callables", "torch.compile"},
    .features = {"checkpointing"},
    .needs = "host python",
    .deadline_s = 120,
    .fixes =
        {{"FixNonReentrantCheckpoint",
          "Pass use_reentrant=False to checkpoint() where the block takes keyword arguments or torch.autograd.grad() "
          "computes the gradients."}},
};

class ReentrantCheckpointInPython : public PythonTest {
 protected:
  // The document's model, smaller, with blocks that take a keyword argument. `prepare` may replace `model`; `step` sets
  // `gradient`, which has to be that of the model without checkpoints, twice. An error comes after those functions of
  // torch that it went through.
  std::string with(const std::string& use_reentrant, const std::string& arguments, const std::string& prepare,
                   const std::string& step) {
    return python(kHostGraph + std::string(R"py(
import traceback
import torch.utils.checkpoint

class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(dim, dim), torch.nn.ReLU(), torch.nn.Linear(dim, dim), torch.nn.ReLU())
    def forward(self, x, scale=1.0):
        return self.layers(x) * scale

class CheckpointedModel(torch.nn.Module):
    def __init__(self, dim=512, num_blocks=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(dim) for _ in range(num_blocks)])
    def forward(self, x):
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(
                block, x, use_reentrant=use_reentrant, preserve_rng_state=False, **arguments)
        return x

def plain(x):
    for block in model.blocks:
        x = block(x, **arguments)
    return x

use_reentrant, arguments = eval(use_reentrant), eval(f"dict({arguments})")
torch.manual_seed(1234)
model = CheckpointedModel(dim=32, num_blocks=2)
try:
    x = torch.randn((4, 32), requires_grad=True)
    exec(prepare)
    seen = []
    for scale in (1, 3):
        x = (torch.randn(4, 32) * scale).requires_grad_()
        expected, = torch.autograd.grad(plain(x).sum(), x)
        exec(step)
        seen.append("right" if expected.any() and torch.allclose(gradient, expected, 1e-3, 1e-6) else "wrong")
    seen = ", ".join(seen)
except Exception as e:
    names = [f.name for f in traceback.extract_tb(e.__traceback__) if "/torch/" in f.filename]
    through = " > ".join(n for n in names if n in ("make_graphed_callables", "grad", "backward", "checkpoint"))
    seen = f"{through}: {type(e).__name__}: {str(e).splitlines()[0]}"
)py"),
                  {{"use_reentrant", use_reentrant}, {"arguments", arguments}, {"prepare", prepare}, {"step", step}});
  }
};

constexpr char kRight[] = "right, right";
constexpr char kBackward[] = "model(x).sum().backward(); gradient = x.grad";
constexpr char kGrad[] = "gradient, = torch.autograd.grad(model(x).sum(), x)";
constexpr char kGraphed[] = "model = torch.cuda.make_graphed_callables(model, (x,))";
constexpr char kCompiled[] = "model = torch.compile(model, backend='aot_eager', fullgraph=True)";

TEST_F(ReentrantCheckpointInPython, Control) { EXPECT_EQ(with("True", "", "pass", kBackward), kRight); }

// fullgraph: all of the model is compiled, checkpoints included, or it is an error.
TEST_F(ReentrantCheckpointInPython, ControlCompiledNonReentrant) {
  EXPECT_EQ(with("False", "", kCompiled, kBackward), kRight);
  EXPECT_EQ(with("False", "", kCompiled, kGrad), kRight);
}

TEST_F(ReentrantCheckpointInPython, ReproducesWithKeywordArguments) {
  std::string use_reentrant = "False";
  TRIGGER(use_reentrant = "True");
  REPRODUCES(with(use_reentrant, "scale=3.0", "pass", kBackward),
             "checkpoint: ValueError: Unexpected keyword arguments: scale", kRight);
}

TEST_F(ReentrantCheckpointInPython, ReproducesUnderGrad) {
  std::string use_reentrant = "False";
  TRIGGER(use_reentrant = "True");
  REPRODUCES(
      with(use_reentrant, "", "pass", kGrad),
      "grad > backward: RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() "
      "or passing an `inputs` parameter to .backward()*",
      kRight);
}

TEST_F(ReentrantCheckpointInPython, ReproducesByGraphedCallable) {
  std::string use_reentrant = "False";
  TRIGGER(use_reentrant = "True");
  REPRODUCES(
      with(use_reentrant, "", kGraphed, kBackward),
      "make_graphed_callables > grad > backward: RuntimeError: When use_reentrant=True, torch.utils.checkpoint is "
      "incompatible with .grad() or passing an `inputs` parameter to .backward()*",
      kRight);
}

TEST_F(ReentrantCheckpointInPython, FixNonReentrantCheckpoint) {
  std::string use_reentrant = "True";
  REMEDY(use_reentrant = "False");
  EXPECT_EQ(with(use_reentrant, "scale=3.0", "pass", kBackward), kRight);
  EXPECT_EQ(with(use_reentrant, "", "pass", kGrad), kRight);
  EXPECT_EQ(with(use_reentrant, "", kGraphed, kBackward), kRight);
}
