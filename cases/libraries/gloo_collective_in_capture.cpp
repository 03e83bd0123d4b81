// A gloo collective is not GPU work: it breaks a capture, or is missing from every replay.
//
// gloo works on the host. For a CUDA tensor, a thread of gloo waits for the copy to the host, on a stream that has
// joined the capture, and the wait is refused. A program that itself copies to the host and back is not refused. Its
// copies are captured, but the collective between them is not: it ran once, during the capture, on the old contents of
// the host buffer. Every replay returns those. Up to 2.5 the log of the failure prints the tensors of the call, and
// that raises 901 in place of the error.
//
// An all-gather of one rank copies its input to its output, so a missing one shows in the output.
//
// Alone:  g++ cases/libraries/gloo_collective_in_capture.cpp $(tools/libtorch --flags) -o gloo_collective_in_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "In Python, a gloo collective invalidates the capture that it is called in, or is missing from its replays",
    .sources = {{"CUDA semantics: graphs", "Constraints"},
                {"PyTorch source", "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp: AsyncAllgatherCUDAWork"}},
    .documented = "Ops that synchronize the CPU with the GPU are prohibited; CPU work will be elided during replay.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "host reads", "threads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effects = {{"ReproducesHostTensor", Effect::SilentlyWrong}},
    .fixes = {{"FixCallAfterReplay", "Call the collective after graph.replay(), outside the capture."},
              {"FixNccl", "Use the NCCL backend for what is captured."}},
    .connections = 8,
};

class GlooCollectiveInCapture : public PythonProgramTest {
 protected:
  // How the capture ended, or what two replays left in z: twice the input if it was gathered from y.
  std::string replays(const std::string& inside, const std::string& outside, const std::string& backend = "gloo") {
    return run(R"py(
import torch
import torch.distributed as dist
dist.init_process_group(backend="{backend}", store=dist.HashStore(), rank=0, world_size=1)
x, y, z = (torch.ones(4, device="cuda") for _ in range(3))
host, gathered = (torch.full((4,), -1.0).pin_memory() for _ in range(2))
dist.all_gather_into_tensor(z, y)
z.zero_()
torch.cuda.synchronize()
torch.zeros(4096).pin_memory()  # Takes gloo's own pinned buffers back into the cache.
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph):
        torch.mul(x, 2, out=y)
        {inside}
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        {outside}
        seen.append(z.tolist()[0])
)py",
               {{"inside", inside}, {"outside", outside}, {"backend", backend}});
  }

  const std::string kGather = "dist.all_gather_into_tensor(z, y)";
  const std::string kThroughTheHost =
      "host.copy_(y, non_blocking=True); dist.all_gather_into_tensor(gathered, host); "
      "z.copy_(gathered, non_blocking=True)";
};

constexpr char kGathered[] = "[6.0, 10.0]", kOfTheCapture[] = "[-1.0, -1.0]";

TEST_F(GlooCollectiveInCapture, Control) { EXPECT_EQ(replays("pass", kGather), kGathered); }

TEST_F(GlooCollectiveInCapture, Reproduces) {
  std::string inside = "pass", outside = kGather;
  TRIGGER(inside = kGather; outside = "pass");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(inside, outside), "900 > 901", kGathered);
}

TEST_F(GlooCollectiveInCapture, ReproducesHostTensor) {
  std::string inside = "pass", outside = kGather;
  TRIGGER(inside = kThroughTheHost; outside = "pass");
  REPRODUCES(replays(inside, outside), kOfTheCapture, kGathered);
}

TEST_F(GlooCollectiveInCapture, FixCallAfterReplay) {
  std::string inside = kThroughTheHost, outside = "pass";
  REMEDY(inside = "pass"; outside = kGather);
  EXPECT_EQ(replays(inside, outside), kGathered);
}

TEST_F(GlooCollectiveInCapture, FixNccl) {
  std::string backend = "gloo";
  REMEDY(backend = "nccl");
  EXPECT_EQ(replays(kGather, "pass", backend), kGathered);
}
