// An all-gather of FSDP that was begun before a capture and is waited for in it breaks the capture.
//
// FSDP gathers a module's parameters on streams of its own and keeps an event for the end of it. A captured forward()
// gathers within the capture, and that works: an iteration with its collectives is captured here and replayed with
// other inputs and other weights. But where unshard() has begun before the capture, or a prefetch, forward() waits for
// an event from outside of it: 905. The threads met this in programs built on FSDP; this one calls unshard() itself,
// and otherwise does what PyTorch's own test of FSDP in a graph does. With one rank nothing is gathered, so it needs
// two GPUs. Up to 2.10 no iteration could be captured, since FSDP pins host memory for the addresses of its parameters.
//
// Alone:  g++ cases/distributed/fsdp_unshard_before_capture.cpp $(tools/libtorch --flags) -o fsdp_unshard_before_capture

#include "fixtures/python/fsdp_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a capture breaks on an all-gather of FSDP that was begun before it",
    .sources = {{"upstream", "torchtitan#3559"},
                {"upstream", "Megatron-LM#7282"},
                {"upstream", "pytorch#164264"},
                {"upstream", "pytorch#171835"},
                {"upstream", "torchtitan#4143"}},
    .documented =
        "capture can encounter a dependency on an event produced by uncaptured work, resulting in "
        "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"FSDP", "NCCL", "pinned memory", "autograd"},
    .features = {"FSDP"},
    .needs = "ranks python",
    .deadline_s = 180,
    .fixes =
        {{"FixGatherInTheCapture",
          "Leave out FSDP's unshard(async_op=True) and prefetches before a capture that would wait for them: forward() "
          "gathers in it."}},
    .connections = 8,
};

class FsdpUnshardBeforeCapture : public FsdpTest {
 protected:
  // Captures an iteration and replays it twice, with the weights doubled in between. `lines` says how the model is
  // sharded, and what precedes the capture.
  std::string captured(int ranks, const std::function<Variables()>& lines) {
    return run_on(ranks, R"py(
model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)).cuda()
for weight in model.parameters():
    torch.nn.init.constant_(weight, 0.125)
{shard}
x = torch.ones((4, 8), device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(side):
    model(x).sum().backward()
    model.zero_grad(set_to_none=True)
    {before}
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, stream=side):
        model(x).sum().backward()
        grads = [weight.grad.detach().clone() for weight in model.parameters()]
if str(seen) == "ok > ok":
    for value in (3, 5):
        x.fill_(value + {rank})
        graph.replay()
        for grad in grads:
            seen = f"{seen} {getattr(grad, '_local_tensor', grad).unique().tolist()}"
        with torch.no_grad():
            for weight in model.parameters():
                getattr(weight, "_local_tensor", weight).mul_(2)
)py",
                  lines);
  }
};

constexpr char kSharded[] = R"py(for part in [*model, model]:
    fully_shard(part))py";
constexpr char kBegun[] = "handle = model[0].unshard(async_op=True)";

// Each gradient is the mean over the ranks of four times the input; with the weights doubled, of eight times it.
constexpr char kHealthy[] = "ok > ok [12.0] [12.0] [40.0] [40.0]";
constexpr char kHealthyOnTwo[] = "ok > ok [14.0] [14.0] [44.0] [44.0]";

TEST_F(FsdpUnshardBeforeCapture, Control) {
  NEEDS_GPUS(1);
  const std::string seen = captured(1, [] {
    return Variables{{"first", kAskForPinnedMemory}, {"shard", kSharded}, {"before", "pass"}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthy);
}

// What ReproducesPinnedMemory shards; a release that cannot capture FSDP can capture this.
TEST_F(FsdpUnshardBeforeCapture, ControlNotSharded) {
  NEEDS_GPUS(1);
  const std::string seen = captured(1, [] {
    return Variables{{"first", "pass"}, {"shard", "pass"}, {"before", "pass"}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthy);
}

TEST_F(FsdpUnshardBeforeCapture, ControlTwoRanks) {
  NEEDS_GPUS(2);
  const std::string seen = captured(2, [] {
    return Variables{{"first", kAskForPinnedMemory}, {"shard", kSharded}, {"before", "pass"}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthyOnTwo);
}

TEST_F(FsdpUnshardBeforeCapture, Reproduces) {
  NEEDS_GPUS(2);
  const std::string seen = captured(2, [] {
    std::string before = "pass";
    TRIGGER(before = kBegun);
    return Variables{{"first", kAskForPinnedMemory}, {"shard", kSharded}, {"before", before}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  RAISED_BY("cuStreamWaitEvent");
  REPRODUCES(seen, "905 > 901", kHealthyOnTwo);
}

// The control's program, without asking first.
TEST_F(FsdpUnshardBeforeCapture, ReproducesPinnedMemory) {
  NEEDS_GPUS(1);
  const std::string seen = captured(1, [] {
    std::string shard = "pass";
    TRIGGER(shard = kSharded);
    return Variables{{"first", "pass"}, {"shard", shard}, {"before", "pass"}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  RAISED_BY("cuMemHostAlloc*");
  REPRODUCES(seen, "900 > 901", kHealthy);
}

TEST_F(FsdpUnshardBeforeCapture, FixGatherInTheCapture) {
  NEEDS_GPUS(2);
  const std::string seen = captured(2, [] {
    std::string before = "pass";
    WITHOUT_REMEDY(before = kBegun);
    return Variables{{"first", kAskForPinnedMemory}, {"shard", kSharded}, {"before", before}};
  });
  if (const std::string reason = lacks(seen); !reason.empty()) NOT_APPLICABLE(reason);
  EXPECT_EQ(seen, kHealthyOnTwo);
}
