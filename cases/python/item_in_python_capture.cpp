// In Python, item() during a capture fails with 900, and leaving torch.cuda.graph with 901.
//
// The document's program. `with torch.cuda.graph(...)` ends the capture on the way out, whatever happened inside.
// Ending it fails too, because it is invalidated, and so the caller catches 901; the 900 that says why is the context
// of that exception. Which call CUDA refuses first depends on whether the pinned element that item() copies into is
// cached.
//
// Alone:  g++ cases/python/item_in_python_capture.cpp $(tools/libtorch --flags) -o item_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, item() during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"host reads"},
    .features = {"host reads"},
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
if str(seen) == "ok > ok":
    for value in (5, 7):
        data.fill_(value)
        graph.replay()
        seen = f"{seen} {result.item()}"
)py";

constexpr char kHealthy[] = "ok > ok 10.0 14.0";

TEST_F(ItemInPythonCapture, Control) { EXPECT_EQ(run(kProgram, {{"line", "pass"}}), kHealthy); }

TEST_F(ItemInPythonCapture, Reproduces) {
  std::string line = "pass";
  TRIGGER(line = "value = result.item()");
  REPRODUCES(run(kProgram, {{"line", line}}), "900 > 901", kHealthy);
}

TEST_F(ItemInPythonCapture, FixReadAfterReplay) {
  std::string inside = "pass";
  WITHOUT_REMEDY(inside = "value = result.item()");
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
    seen.append(result.item())
)py",
                {{"inside", inside}}),
            "[10.0, 14.0]");
}

TEST_F(ItemInPythonCapture, FixStayOnTheGpu) {
  std::string value = "result.item()";
  REMEDY(value = "result");
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with torch.cuda.graph(graph):
    result = data * 2
    final = {value} * 3
seen = []
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    seen.append(final.item())
)py",
                {{"value", value}}),
            "[30.0, 42.0]");
}
