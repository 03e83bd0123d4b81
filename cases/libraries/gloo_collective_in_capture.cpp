// A gloo collective is not GPU work: it breaks a capture, or is missing from every replay.
//
// gloo reduces on the host. For a CUDA tensor, a thread of gloo waits for the copy to the host, on a stream that has
// joined the capture, and the wait is refused. A program that itself copies to the host and back is not refused. Its
// copies are captured, but the reduction between them is not: it ran once, during the capture, on the old contents of
// the host buffer. Every replay returns the rank's own values.
//
// Alone:  g++ cases/libraries/gloo_collective_in_capture.cpp $(tools/libtorch --flags) -o gloo_collective_in_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "In Python, a gloo collective invalidates the capture that it is called in, or is missing from its replays",
    .sources = {{"CUDA semantics: graphs", "Constraints"},
                {"PyTorch source", "torch/csrc/distributed/c10d/ProcessGroupGlooCuda.cpp: AsyncAllreduceCUDAWork"}},
    .documented = "Ops that synchronize the CPU with the GPU are prohibited; CPU work will be elided during replay.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "host reads", "threads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effects = {{"ReproducesHostTensor", Effect::SilentlyWrong}},
    .fixes = {{"FixReduceAfterReplay", "Call the collective after graph.replay(), outside the capture."},
              {"FixNccl", "Use the NCCL backend for what is captured."}},
};

class GlooCollectiveInCapture : public PythonProgramTest {
 protected:
  // How the capture ended, or what two replays left in y: twice the input, plus ten from the other rank if there is
  // one.
  std::string replays(const std::string& ranks, const std::string& inside, const std::string& outside,
                      const std::string& backend = "gloo") {
    return run(R"py(
import datetime, threading
import torch
import torch.distributed as dist

# Both ranks are in this process, each with a group of its own.
store, groups = dist.HashStore(), {}

def join(rank):
    groups[rank] = dist.ProcessGroupGloo(store, rank, {ranks}, datetime.timedelta(seconds=30))

def in_threads(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

if "{backend}" == "gloo":
    in_threads(*[lambda rank=rank: join(rank) for rank in range({ranks})])
else:
    dist.init_process_group(backend="nccl", store=store, rank=0, world_size={ranks})
    groups[0] = dist.group.WORLD

def all_reduce(tensor):
    other = [threading.Thread(target=lambda: groups[1].allreduce([torch.full((4,), 10.0)]).wait())] * ({ranks} - 1)
    for thread in other:
        thread.start()
    groups[0].allreduce([tensor]).wait()
    for thread in other:
        thread.join()

x, y = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
host = torch.zeros(4).pin_memory()
all_reduce(y)
y.zero_()
torch.cuda.synchronize()
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
        seen.append(y.tolist()[0])
)py",
               {{"ranks", ranks}, {"inside", inside}, {"outside", outside}, {"backend", backend}});
  }

  const std::string kReduce = "all_reduce(y)";
  const std::string kThroughTheHost =
      "host.copy_(y, non_blocking=True); all_reduce(host); y.copy_(host, non_blocking=True)";
};

constexpr char kAlone[] = "[6.0, 10.0]", kOfTwo[] = "[16.0, 20.0]";

TEST_F(GlooCollectiveInCapture, Control) { EXPECT_EQ(replays("2", "pass", kReduce), kOfTwo); }

TEST_F(GlooCollectiveInCapture, Reproduces) {
  std::string inside = "pass", outside = kReduce;
  TRIGGER(inside = kReduce; outside = "pass");
  REPRODUCES(replays("1", inside, outside), "900 > 901", kAlone);
}

TEST_F(GlooCollectiveInCapture, ReproducesHostTensor) {
  std::string inside = "pass", outside = kReduce;
  TRIGGER(inside = kThroughTheHost; outside = "pass");
  REPRODUCES(replays("2", inside, outside), kAlone, kOfTwo);
}

TEST_F(GlooCollectiveInCapture, FixReduceAfterReplay) {
  std::string inside = kThroughTheHost, outside = "pass";
  REMEDY(inside = "pass"; outside = kReduce);
  EXPECT_EQ(replays("2", inside, outside), kOfTwo);
}

TEST_F(GlooCollectiveInCapture, FixNccl) {
  std::string backend = "gloo";
  REMEDY(backend = "nccl");
  EXPECT_EQ(replays("1", kReduce, "pass", backend), kAlone);
}
