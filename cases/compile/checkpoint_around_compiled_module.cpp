// A compiled module inside a checkpointed block fails once its CUDA graphs have been recorded.
//
// CUDAGraph Trees require that a tensor which was freed during the recording is freed at the same point of each replay.
// With use_reentrant=False, torch.utils.checkpoint frees and recomputes activations in hooks on saved tensors. When the
// block runs again in the backward pass, other tensors are alive than at the recording.
//
// Alone:  g++ cases/compile/checkpoint_around_compiled_module.cpp $(tools/libtorch --flags) -o checkpoint_around_compiled_module

#include "fixtures/python/compiled_settings.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled module inside a checkpointed block fails after a few steps",
    .sources = {{"upstream", "pytorch#154306"}},
    .documented =
        "RuntimeError: TODO: graph recording observed an input tensor deallocate during graph  recording that did not "
        "occur during replay. Please file an issue.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "checkpointing", "autograd"},
    .features = {"torch.compile", "checkpointing", "autograd"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixReentrant", "Pass use_reentrant=True to checkpoint()."},
              {"FixNoCudaGraphs", "Compile the module without CUDA graphs: mode='default'."}},
};

class CheckpointAroundCompiledModule : public CompiledSettingsTest {
 protected:
  // Whether six steps have right gradients, and what the last one recorded and launched.
  std::string six_steps(const std::string& forward, const std::string& mode = "reduce-overhead") {
    return compiled(R"py(
from torch.utils.checkpoint import checkpoint

class Sub(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.sub, self.after = torch.nn.Linear(16, 16), Sub(), torch.nn.Linear(16, 16)
        self.called = torch.compile(self.sub, mode="{mode}")
    def plain(self, x):
        return self.after(self.sub(self.before(x)))
    def forward(self, x):
        return self.after(self.called(self.before(x)))

torch.manual_seed(1)
blocks = [Block().cuda() for i in range(2)]
parameters = [p for block in blocks for p in block.parameters()]
right = True
for step in range(6):
    marked = numbers()
    x = torch.randn(4, 16, device="cuda", requires_grad=True)
    y = blocks[1].plain(blocks[0].plain(x))
    expected = torch.autograd.grad(y.sum(), parameters)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    torch.compiler.cudagraph_mark_step_begin()
    y = x
    for block in blocks:
        y = {forward}
    y.sum().backward()
    right &= all(torch.allclose(p.grad, e, atol=1e-4) for p, e in zip(parameters, expected))
seen = f"{'right' if right else 'wrong'}, {counts_since(marked)}"
)py",
                    {{"forward", forward}, {"mode", mode}});
  }

  const std::string kEager = "block(y)";
  const std::string kCheckpointed = "checkpoint(block, y, use_reentrant=False)";
  const std::string kReentrant = "checkpoint(block, y, use_reentrant=True)";
};

// Forward and backward of two blocks.
constexpr char kReplayed[] = "right, 0 graphs, 4 launches";

TEST_F(CheckpointAroundCompiledModule, Control) { EXPECT_EQ(six_steps(kEager), kReplayed); }

TEST_F(CheckpointAroundCompiledModule, Reproduces) {
  std::string forward = kEager;
  TRIGGER(forward = kCheckpointed);
  REPRODUCES(six_steps(forward), "RuntimeError: TODO: graph recording observed an input tensor deallocate*", kReplayed);
}

// For each block a forward without gradients, the forward that the backward repeats, and its backward.
TEST_F(CheckpointAroundCompiledModule, FixReentrant) {
  std::string forward = kCheckpointed;
  REMEDY(forward = kReentrant);
  EXPECT_EQ(six_steps(forward), "right, 0 graphs, 6 launches");
}

TEST_F(CheckpointAroundCompiledModule, FixNoCudaGraphs) {
  std::string mode = "reduce-overhead";
  REMEDY(mode = "default");
  EXPECT_EQ(six_steps(kCheckpointed, mode), "right, 0 graphs, 0 launches");
}
