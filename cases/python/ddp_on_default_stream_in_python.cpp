// In Python, a DistributedDataParallel made on the default stream makes backward() in a capture fail.
//
// The document's program with one process: DDP's reducer holds each parameter's AccumulateGrad node from its
// constructor on, and the nodes belong to the stream that was current then. backward() in the capture makes the default
// stream wait for the capturing one: 906. Fifteen warm-ups do not help, not even on the capturing stream (our own
// addition), because the nodes live as long as the reducer. The process group needs no network: its store is in the
// process, and NCCL uses the loopback device.
//
// Alone:  g++ cases/python/ddp_on_default_stream_in_python.cpp $(tools/libtorch --flags) -o ddp_on_default_stream_in_python

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, backward() in a capture fails for a DistributedDataParallel made on the default stream",
    .sources = {{"capture failures", "DistributedDataParallel: Default Stream Conflict"}},
    .documented =
        "cudaErrorStreamCaptureImplicit(906): operation would make the legacy stream depend on a capturing "
        "blocking stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"DDP", "NCCL", "autograd", "default stream"},
    .features = {"DDP"},
    .needs = "gpu python",
    .deadline_s = 180,
    .fixes = {{"FixMakeOnCapturingStream",
               "Construct DistributedDataParallel under torch.cuda.stream(s), warm up on s, and pass stream=s to "
               "torch.cuda.graph()."}},
    .connections = 8,
};

class DdpOnDefaultStreamInPython : public PythonProgramTest {
 protected:
  void SetUp() override {
    PythonProgramTest::SetUp();
    if (IsSkipped()) return;
    if (value_of("torch.distributed.is_available() and torch.distributed.is_nccl_available()") != "True") {
      GTEST_SKIP() << "this LibTorch has no NCCL";
    }
  }
  // `made` is the stream that DDP is made on, `used` that of the warm-up; the capture is on the side stream.
  std::string captured(const std::string& wrap, const std::string& made, const std::string& used) {
    return run(R"py(
import os
os.environ["NCCL_SOCKET_IFNAME"] = "lo"
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
torch.cuda.set_device(0)
torch.distributed.init_process_group(backend="nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
torch.distributed.barrier()
model = torch.nn.Linear(128, 128).cuda()
x = torch.randn((32, 128), device="cuda")
default, side = torch.cuda.default_stream(), torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream({made}):
    model = {wrap}(model)
torch.cuda.synchronize()
with torch.cuda.stream({used}):
    for _ in range(15):
        model.zero_grad()
        y = model(x)
        y.sum().backward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, stream=side, capture_error_mode="global"):
        model.zero_grad()
        y = model(x)
        y.sum().backward()
if str(seen) == "ok > ok":
    weight, bias = model.parameters()
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        seen = f"{seen} {weight.grad.unique().tolist()} {bias.grad.unique().tolist()}"
    graph.reset()
)py",
               {{"wrap", wrap}, {"made", made}, {"used", used}});
  }
};

constexpr char kHealthy[] = "ok > ok [96.0] [32.0] [160.0] [32.0]";

// The model itself holds no nodes. Those of the last warm-up die with its output.
TEST_F(DdpOnDefaultStreamInPython, ControlWithoutDdp) {
  EXPECT_EQ(captured("torch.nn.Sequential", "default", "side"), kHealthy);
}

TEST_F(DdpOnDefaultStreamInPython, Reproduces) {
  std::string made = "side", used = "side";
  TRIGGER(made = used = "default");
  RAISED_BY("cuStreamWaitEvent*");
  REPRODUCES(captured("DDP", made, used), "906 > 901", kHealthy);
}

TEST_F(DdpOnDefaultStreamInPython, ReproducesAfterWarmUpsOnTheCapturingStream) {
  std::string made = "side";
  TRIGGER(made = "default");
  RAISED_BY("cuStreamWaitEvent*");
  REPRODUCES(captured("DDP", made, "side"), "906 > 901", kHealthy);
}

TEST_F(DdpOnDefaultStreamInPython, FixMakeOnCapturingStream) {
  std::string made = "default", used = "default";
  REMEDY(made = used = "side");
  EXPECT_EQ(captured("DDP", made, used), kHealthy);
}
