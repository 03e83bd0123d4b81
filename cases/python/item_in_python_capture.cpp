// In Python, item() during a capture fails with 900, and leaving torch.cuda.graph with 901.
//
// The document's program. `with torch.cuda.graph(...)` ends the capture on the way out, whatever happened inside. The
// end fails too, because CUDA has given the capture up, and so what the caller catches is 901; the 900 that says why is
// its context. Which call is refused first depends on whether the pinned element that item() copies into is cached.
//
// Alone:  g++ cases/python/item_in_python_capture.cpp $(ci/libtorch --flags) -o item_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, item() during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixReadAfterReplay", "Call item() after graph.replay(), outside the torch.cuda.graph block."},
              {"FixStayOnTheGpu",
               "Compute with the tensor itself inside the capture, so that its value stays on the GPU, and leave "
               "item() out."}},
};

using ItemInPythonCapture = PythonProgramTest;

constexpr char kProgram[] = R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        result = data * 2
        {line}
)py";

TEST_F(ItemInPythonCapture, Control) { EXPECT_EQ(run(kProgram, {{"line", "pass"}}), "ok > ok"); }

TEST_F(ItemInPythonCapture, Reproduces) {
  std::string line = "pass";
  TRIGGER(line = "value = result.item()");
  REPRODUCES(run(kProgram, {{"line", line}}), "900 > 901", "ok > ok");
}

TEST_F(ItemInPythonCapture, FixReadAfterReplay) {
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
    seen.append(result.item())
)py"),
            "[10.0, 14.0]");
}

TEST_F(ItemInPythonCapture, FixStayOnTheGpu) {
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with torch.cuda.graph(graph):
    result = data * 2
    final = result * 3
seen = []
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    seen.append(final.item())
)py"),
            "[30.0, 42.0]");
}
