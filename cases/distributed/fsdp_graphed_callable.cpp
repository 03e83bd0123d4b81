// In Python, torch.cuda.make_graphed_callables() refuses a module that FSDP shards.
//
// fully_shard() gathers a module's parameters in a hook before its forward(), and make_graphed_callables() takes no
// module with hooks. Hooks that are added afterwards do run, but the parameters have to be gathered for its warm-ups
// and its capture too. What can be captured is a whole iteration with its collectives, by torch.cuda.graph(), as
// PyTorch's own test of FSDP does; fsdp_unshard_before_capture has it with two ranks.
//
// Alone:  g++ cases/distributed/fsdp_graphed_callable.cpp $(tools/libtorch --flags) -o fsdp_graphed_callable

#include "fixtures/python/fsdp_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a module that FSDP shards cannot be made a graphed callable",
    .sources = {{"upstream", "pytorch#164264"}, {"upstream", "pytorch#171835"}},
    .documented = "make_graphed_callables does not support running with models with any hooks",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"FSDP", "NCCL", "graphed callables"},
    .features = {"FSDP", "graphed callables"},
    .needs = "ranks python",
    .deadline_s = 120,
    .fixes = {{"FixCaptureTheIteration",
               "Capture the whole iteration of a module under fully_shard() with torch.cuda.graph() instead of "
               "make_graphed_callables(); from 2.11 on.",
               ">=2.11"}},
    .connections = 8,
};

class FsdpGraphedCallable : public FsdpTest {
 protected:
  // The gradients of two iterations of one rank, as {graphed} defines them.
  std::string seen_by(const std::function<Variables()>& lines) {
    return run_on(1, R"py(
model = torch.nn.Linear(8, 8, bias=False).cuda()
torch.nn.init.constant_(model.weight, 0.125)
{shard}
x = torch.ones((4, 8), device="cuda")
{graphed}
seen = []
for value in (3, 5):
    x.fill_(value)
    grad = gradient()
    seen += getattr(grad, "_local_tensor", grad).unique().tolist()
)py",
                  lines);
  }
};

constexpr char kCallable[] = R"py(model = torch.cuda.make_graphed_callables(model, (x,))
def gradient():
    model.zero_grad(set_to_none=True)
    model(x).sum().backward()
    return model.weight.grad)py";

constexpr char kIteration[] = R"py(side = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(side):
    model(x).sum().backward()
    model.zero_grad(set_to_none=True)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=side):
    model(x).sum().backward()
    captured = model.weight.grad.detach().clone()
def gradient():
    graph.replay()
    return captured)py";

constexpr char kHealthy[] = "[12.0, 20.0]";

TEST_F(FsdpGraphedCallable, Control) {
  NEEDS_GPUS(1);
  const std::string seen = seen_by([] {
    return Variables{{"first", "pass"}, {"shard", "pass"}, {"graphed", kCallable}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthy);
}

TEST_F(FsdpGraphedCallable, Reproduces) {
  NEEDS_GPUS(1);
  const std::string seen = seen_by([] {
    std::string shard = "pass";
    TRIGGER(shard = "fully_shard(model)");
    return Variables{{"first", "pass"}, {"shard", shard}, {"graphed", kCallable}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  REPRODUCES(seen, "AssertionError: Modules must not have hooks registered at the time they are passed.*", kHealthy);
}

TEST_F(FsdpGraphedCallable, FixCaptureTheIteration) {
  NEEDS_GPUS(1);
  const std::string seen = seen_by([] {
    std::string graphed = kCallable;
    REMEDY(graphed = kIteration);
    return Variables{{"first", kAskForPinnedMemory}, {"shard", "fully_shard(model)"}, {"graphed", graphed}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthy);
}
