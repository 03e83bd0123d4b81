// Allocating symmetric memory in a capture, or its first rendezvous there, invalidates the capture.
//
// symm_mem.empty() clears the signal pad of the new memory, and the first rendezvous() of a buffer uploads the
// addresses of all ranks. Collectives on symmetric memory call rendezvous() themselves. From 2.14 on both wait for the
// stream, which a capture refuses. Up to 2.13 they use cudaMemset() and cudaMemcpy() on the default stream, which a
// capture on another stream allows. Later calls of rendezvous() use the result of the first. One rank is enough for
// both. NVLink multicast is off here.
//
// Alone:  g++ cases/distributed/symmetric_memory_in_capture.cpp $(tools/libtorch --flags) -o symmetric_memory_in_capture

#include <torch/version.h>

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, allocating symmetric memory or its first rendezvous in a capture invalidates the capture",
    .sources = {{"upstream", "pytorch#198140"},
                {"upstream", "pytorch#197857"},
                {"PyTorch documentation", "torch.distributed._symmetric_memory.empty"}},
    .documented =
        "Allocation or first rendezvous inside CUDA graph capture fails with a bare cudaErrorStreamCaptureUnsupported",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "extensions"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixAllocateBefore",
               "Allocate the buffers with torch.distributed._symmetric_memory.empty() before the capture."},
              {"FixRendezvousBefore",
               "Call torch.distributed._symmetric_memory.rendezvous() on each buffer before the capture."}},
    .connections = 8,
};

constexpr bool kWaits = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15;

class SymmetricMemoryInCapture : public PythonProgramTest {
 protected:
  void SetUp() override {
    PythonProgramTest::SetUp();
    if (IsSkipped()) return;
    if (python(R"py(
try:
    import torch.distributed._symmetric_memory as symm_mem
    seen = hasattr(symm_mem, "empty") and hasattr(symm_mem, "rendezvous")
except ImportError:
    seen = False
)py") != "True") {
      NOT_APPLICABLE("this release has no torch.distributed._symmetric_memory.empty()");
    }
  }

  // How the capture ended, or what two replays left in y.
  std::string replays(const std::string& before, const std::string& captured) {
    return run(R"py(
import os
os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

torch.cuda.set_device(0)
dist.init_process_group(backend="gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.group.WORLD.group_name
symm_mem.enable_symm_mem_for_group(group)
x, y = torch.ones(4, device="cuda"), torch.zeros(4, device="cuda")

def allocate():
    return symm_mem.empty(4, device="cuda")

{before}
torch.mul(x, 2, out=y)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {captured}
        torch.mul(x, 2, out=buffer)
        y.copy_(buffer)
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        seen.append(y.tolist()[0])
)py",
               {{"before", before}, {"captured", captured}});
  }

  const std::string kAllocate = "buffer = allocate()", kExchange = "symm_mem.rendezvous(buffer, group)";
};

constexpr char kDoubled[] = "[6.0, 10.0]";

TEST_F(SymmetricMemoryInCapture, Control) { EXPECT_EQ(replays(kAllocate + "; " + kExchange, "pass"), kDoubled); }

// What the first has made is found again.
TEST_F(SymmetricMemoryInCapture, ControlSecondRendezvous) {
  EXPECT_EQ(replays(kAllocate + "; " + kExchange, kExchange), kDoubled);
}

TEST_F(SymmetricMemoryInCapture, Reproduces) {
  std::string before = kAllocate + "; " + kExchange;
  TRIGGER(before = kAllocate);
  REPRODUCES(replays(before, kExchange), "900 > 901", kDoubled);
}

TEST_F(SymmetricMemoryInCapture, ReproducesAllocation) {
  std::string before = kAllocate, captured = "pass";
  TRIGGER(before = "pass"; captured = kAllocate);
  REPRODUCES(replays(before, captured), "900 > 901", kDoubled);
}

TEST_F(SymmetricMemoryInCapture, FixAllocateBefore) {
  if (!kWaits) REMEDY_STAYS("this release allocates and exchanges in a capture");
  std::string before = "pass", captured = kAllocate;
  REMEDY(before = kAllocate; captured = "pass");
  EXPECT_EQ(replays(before, captured), kDoubled);
}

TEST_F(SymmetricMemoryInCapture, FixRendezvousBefore) {
  if (!kWaits) REMEDY_STAYS("this release allocates and exchanges in a capture");
  std::string before = kAllocate;
  REMEDY(before += "; " + kExchange);
  EXPECT_EQ(replays(before, kExchange), kDoubled);
}
