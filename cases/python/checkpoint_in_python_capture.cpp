// In Python, torch.utils.checkpoint with preserve_rng_state=True fails in a capture.
//
// The document's model: four reentrant checkpointed blocks, warmed up on a side stream, then captured. Before each
// block the checkpoint saves the generator's state for the recomputation, and up to 2.9 a capture refuses to read it.
// From 2.10 on the program runs.
//
// Alone:  g++ cases/python/checkpoint_in_python_capture.cpp $(tools/libtorch --flags) -o checkpoint_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a checkpoint that preserves the generator's state fails in a capture",
    .sources = {{"capture failures", "Activation Checkpointing with RNG State Preservation"}},
    .documented = "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"checkpointing", "generators", "autograd"},
    .features = {"checkpointing"},
    .needs = "gpu python",
    .deadline_s = 180,
    .fixes = {{"FixDoNotPreserveRngState",
               "Pass preserve_rng_state=False to torch.utils.checkpoint.checkpoint() if its blocks draw no random "
               "numbers."}},
};

class CheckpointInPythonCapture : public PythonProgramTest {
 protected:
  // How the capture went. If it succeeded: whether the output and the gradient of two replays are those of the model
  // without graph and checkpoint, and how many different outputs there were.
  std::string captured(const std::string& step) {
    return run(R"py(
import torch
import torch.utils.checkpoint

class CheckpointedModel(torch.nn.Module):
    def __init__(self, dim=512, num_blocks=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList([
            torch.nn.Sequential(
                torch.nn.Linear(dim, dim),
                torch.nn.ReLU(),
                torch.nn.Linear(dim, dim),
                torch.nn.ReLU(),
            ) for _ in range(num_blocks)
        ])

    def forward(self, x):
        for block in self.blocks:
            x = {step}
        return x

def plain(x):
    for block in model.blocks:
        x = block(x)
    return x

graph = torch.cuda.CUDAGraph()
model = CheckpointedModel(dim=128).cuda()
x = torch.randn((32, 128), device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    y = model(x)
    y.sum().backward()
del y  # And with it the nodes that belong to the warm-up's stream.
with Outcome() as seen:
    with torch.cuda.graph(graph):
        y = model(x)
        y.sum().backward()
if str(seen) == "ok > ok":
    equal, sums = [], set()
    for scale in (1, 3):
        x.detach().copy_(torch.randn_like(x) * scale)
        x.grad.zero_()
        graph.replay()
        expected = plain(x)
        gradient, = torch.autograd.grad(expected.sum(), x)
        equal.append(torch.allclose(y, expected, 1e-3, 1e-6) and torch.allclose(x.grad, gradient, 1e-3, 1e-6))
        sums.add(y.sum().item())
    seen = f"{seen} {equal} {len(sums)}"
)py",
               {{"step", step}});
  }
  static std::string checkpoint(const std::string& preserve_rng_state) {
    return "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True, preserve_rng_state=" + preserve_rng_state +
           ")";
  }
};

TEST_F(CheckpointInPythonCapture, ControlWithoutCheckpoint) {
  EXPECT_EQ(captured("block(x)"), "ok > ok [True, True] 2");
}

TEST_F(CheckpointInPythonCapture, Reproduces) {
  std::string preserve_rng_state = "False";
  TRIGGER(preserve_rng_state = "True");
  REPRODUCES(captured(checkpoint(preserve_rng_state)),
             "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture* > ok",
             "ok > ok [True, True] 2");
}

TEST_F(CheckpointInPythonCapture, FixDoNotPreserveRngState) {
  if (breaks_remedies() && capture_may_read_rng_state()) {
    NOT_APPLICABLE("this release needs no remedy: a capture may read the generator's state");
  }
  std::string preserve_rng_state = "True";
  REMEDY(preserve_rng_state = "False");
  EXPECT_EQ(captured(checkpoint(preserve_rng_state)), "ok > ok [True, True] 2");
}
