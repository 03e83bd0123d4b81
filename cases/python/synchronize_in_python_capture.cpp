// In Python, torch.cuda.synchronize() during a capture invalidates it.
//
// It waits for all work on the device, that of the capturing stream included, and captured work does not run. CUDA
// refuses the wait (900), and leaving torch.cuda.graph raises 901.
//
// Alone:  g++ cases/python/synchronize_in_python_capture.cpp $(tools/libtorch --flags) -o synchronize_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, torch.cuda.synchronize() during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"},
                {"capture failures", "Synchronization Failures"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"host reads"},
    .features = {"host reads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixSynchronizeAfterReplay",
               "Call torch.cuda.synchronize() after graph.replay(), outside the torch.cuda.graph block."}},
};

using SynchronizeInPythonCapture = PythonProgramTest;

constexpr char kProgram[] = R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        result = data * 2
        {line}
if str(seen) == "ok > ok":
    for value in (5, 7):
        data.fill_(value)
        graph.replay()
        seen = f"{seen} {result.item()}"
)py";

constexpr char kHealthy[] = "ok > ok 10.0 14.0";

TEST_F(SynchronizeInPythonCapture, Control) { EXPECT_EQ(run(kProgram, {{"line", "pass"}}), kHealthy); }

TEST_F(SynchronizeInPythonCapture, Reproduces) {
  std::string line = "pass";
  TRIGGER(line = "torch.cuda.synchronize()");
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(run(kProgram, {{"line", line}}), "900 > 901", kHealthy);
}

TEST_F(SynchronizeInPythonCapture, FixSynchronizeAfterReplay) {
  std::string inside = "pass";
  WITHOUT_REMEDY(inside = "torch.cuda.synchronize()");
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with torch.cuda.graph(graph):
    result = data * 2
    {inside}
seen = []
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    torch.cuda.synchronize()
    seen.append(result.item())
)py",
                {{"inside", inside}}),
            "[10.0, 14.0]");
}
