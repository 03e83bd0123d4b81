// The first collective of a process group creates its communicator, which a capture refuses.
//
// init_process_group() without device_id connects nothing. The first collective creates NCCL's communicator, and NCCL
// begins with cudaFree(NULL), an unsafe call in a capture. The error is NCCL's "unhandled cuda error", followed by
// CUDA's text. One rank is enough, because the call comes before any exchange with other ranks. Up to 2.5 the log of
// the failure prints the tensors of the call, and that raises 901 in place of the error. In 2.15 the default backend
// connects in init_process_group(), also without device_id, so that the first collective can be captured.
//
// Alone:  g++ cases/distributed/communicator_made_in_capture.cpp $(tools/libtorch --flags) -o communicator_made_in_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the first collective of a process group invalidates the capture that it is called in",
    .sources = {{"upstream", "rccl#2022"},
                {"upstream", "pie#499"},
                {"NCCL source", "src/init.cc: ncclCommInitRankDev()"}},
    .documented =
        "the NCCL communication is initialized lazily (on first all_reduce); hipFree: Returned "
        "hipErrorStreamCaptureUnsupported",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP"},
    .features = {"NCCL"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes =
        {{"FixFirstCollectiveBefore", "Call one collective of each process group before the capture, and wait for it."},
         {"FixDeviceOfTheGroup",
          "Give init_process_group() the rank's GPU, device_id=torch.device('cuda', rank): it then connects at once."}},
    .connections = 8,
};

class CommunicatorMadeInCapture : public PythonProgramTest {
 protected:
  // How the capture ended, or what two replays computed.
  std::string replays(const std::string& options, const std::string& before) {
    return run(R"py(
import torch
import torch.distributed as dist

torch.cuda.set_device(0)
x, y = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")
dist.init_process_group(backend="nccl", store=dist.HashStore(), rank=0, world_size=1{options})
{before}
torch.mul(x, 2, out=y)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph):
        torch.mul(x, 2, out=y)
        dist.all_reduce(y)
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        seen.append(y.tolist()[0])
)py",
               {{"options", options}, {"before", before}});
  }

  const std::string kCollective = "dist.all_reduce(y)";
};

constexpr char kDoubled[] = "[6.0, 10.0]";

TEST_F(CommunicatorMadeInCapture, Control) { EXPECT_EQ(replays("", kCollective), kDoubled); }

TEST_F(CommunicatorMadeInCapture, Reproduces) {
  std::string before = kCollective;
  TRIGGER(before = "pass");
  REPRODUCES(replays("", before), "900 > 901", kDoubled);
}

TEST_F(CommunicatorMadeInCapture, FixFirstCollectiveBefore) {
  std::string before = "pass";
  REMEDY(before = kCollective);
  EXPECT_EQ(replays("", before), kDoubled);
}

TEST_F(CommunicatorMadeInCapture, FixDeviceOfTheGroup) {
  const std::string parameters = "__import__('inspect').signature(torch.distributed.init_process_group).parameters";
  if (value_of("'device_id' in " + parameters) != "True") {
    NOT_APPLICABLE("init_process_group() has no device_id in this release");
  }
  std::string options;
  REMEDY(options = ", device_id=torch.device('cuda', 0)");
  EXPECT_EQ(replays(options, "pass"), kDoubled);
}
