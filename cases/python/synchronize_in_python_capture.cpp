// In Python, torch.cuda.synchronize() during a capture invalidates it.
//
// It waits for all of the device's work, the capturing stream's too, of which nothing runs. CUDA refuses the wait (900)
// and leaving torch.cuda.graph reports 901.
//
// Alone:  g++ cases/python/synchronize_in_python_capture.cpp $(ci/libtorch --flags) -o synchronize_in_python_capture

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
)py";

TEST_F(SynchronizeInPythonCapture, Control) { EXPECT_EQ(run(kProgram, {{"line", "pass"}}), "ok > ok"); }

TEST_F(SynchronizeInPythonCapture, Reproduces) {
  std::string line = "pass";
  TRIGGER(line = "torch.cuda.synchronize()");
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(run(kProgram, {{"line", line}}), "900 > 901", "ok > ok");
}

TEST_F(SynchronizeInPythonCapture, FixSynchronizeAfterReplay) {
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with torch.cuda.graph(graph):
    result = data * 2
seen = []
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    torch.cuda.synchronize()
    seen.append(result.item())
)py"),
            "[10.0, 14.0]");
}
