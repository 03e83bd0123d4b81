// In Python, torch.cuda.empty_cache() during a capture frees nothing and raises nothing.
//
// The document's program. torch.cuda.graph empties the cache itself on entry, so that function is replaced by one that
// does nothing until the capture is open; a freed tensor then still lies in the cache. The allocation in the capture
// succeeds, and whether empty_cache() freed the tensor shows in the reserved memory. The tensor is larger than the
// document's, so that it has a segment of its own. The trigger is to call it in the capture and not after it.
//
// Alone:  g++ cases/python/empty_cache_in_python_capture.cpp $(ci/libtorch --flags) -o empty_cache_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, empty_cache() during a capture is a no-op",
    .sources = {{"capture failures", "Device Memory: Allocation Allowed, Free Skipped"},
                {"upstream", "pytorch#158152"}},
    .documented = "empty_cache() is a safe no-op during capture: no error, nothing is freed",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::Works,
    .fixes = {{"FixEmptyAfterCapture",
               "Call torch.cuda.empty_cache() after the torch.cuda.graph block, where it frees what is cached."}},
};

using EmptyCacheInPythonCapture = PythonProgramTest;

constexpr char kProgram[] = R"py(
import torch
noop = lambda *args, **kwargs: None
empty_cache = torch.cuda.empty_cache
torch.cuda.empty_cache = noop
graph = torch.cuda.CUDAGraph()
x = torch.randn(16 * 1024**2, device="cuda")
del x
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        torch.cuda.empty_cache = empty_cache
        before = torch.cuda.memory_reserved()
        y = torch.randn(32, device="cuda")
        {inside}
{after}
seen = f"{seen}, cache {'kept' if torch.cuda.memory_reserved() >= before else 'freed'}"
)py";

TEST_F(EmptyCacheInPythonCapture, Control) {
  EXPECT_EQ(run(kProgram, {{"inside", "pass"}, {"after", "pass"}}), "ok > ok, cache kept");
}

TEST_F(EmptyCacheInPythonCapture, Reproduces) {
  std::string inside = "pass", after = "pass";
  TRIGGER(inside = "torch.cuda.empty_cache()");
  WITHOUT_TRIGGER(after = "torch.cuda.empty_cache()");
  REPRODUCES(run(kProgram, {{"inside", inside}, {"after", after}}), "ok > ok, cache kept", "ok > ok, cache freed");
}

TEST_F(EmptyCacheInPythonCapture, FixEmptyAfterCapture) {
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(32, device="cuda")
with torch.cuda.graph(graph):
    y = data * 2
x = torch.randn(16 * 1024**2, device="cuda")
del x
before = torch.cuda.memory_reserved()
torch.cuda.empty_cache()
seen = ["freed" if torch.cuda.memory_reserved() < before else "kept"]
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    seen.append(y.unique().tolist())
)py"),
            "['freed', [10.0], [14.0]]");
}
