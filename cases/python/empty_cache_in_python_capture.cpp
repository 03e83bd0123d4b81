// In Python, torch.cuda.empty_cache() during a capture frees nothing and raises nothing.
//
// The document's program. torch.cuda.graph empties the cache itself on entry, as one control shows; elsewhere that
// function is replaced by one that does nothing until the capture is open, so that a freed tensor still lies in the
// cache. The allocation in the capture succeeds, and the reserved memory shows whether empty_cache() freed the tensor.
// The tensor is larger than the document's, so that it has a segment of its own. The trigger is to call empty_cache()
// in the capture and not after it.
//
// Alone:  g++ cases/python/empty_cache_in_python_capture.cpp $(tools/libtorch --flags) -o empty_cache_in_python_capture

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
    .tags = {"memory pools"},
    .features = {"memory pools"},
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
data = torch.ones(32, device="cuda")
x = torch.randn(16 * 1024**2, device="cuda")
del x
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        torch.cuda.empty_cache = empty_cache
        before = torch.cuda.memory_reserved()
        y = torch.randn(32, device="cuda") * 0 + data
        {inside}
{after}
seen = f"{seen}, cache {'kept' if torch.cuda.memory_reserved() >= before else 'freed'}"
if seen.startswith("ok > ok"):
    for value in (5, 7):
        data.fill_(value)
        graph.replay()
        seen += f" {y.unique().tolist()}"
)py";

TEST_F(EmptyCacheInPythonCapture, Control) {
  EXPECT_EQ(run(kProgram, {{"inside", "pass"}, {"after", "pass"}}), "ok > ok, cache kept [5.0] [7.0]");
}

TEST_F(EmptyCacheInPythonCapture, ControlEmptiedOnEntry) {
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.ones(32, device="cuda")
x = torch.randn(16 * 1024**2, device="cuda")
size = x.nbytes
del x
before = torch.cuda.memory_reserved()
with torch.cuda.graph(graph, capture_error_mode="global"):
    entered = torch.cuda.memory_reserved()
    y = data * 2
seen = ["freed" if before - entered > size // 2 else "kept"]
for value in (5, 7):
    data.fill_(value)
    graph.replay()
    seen.append(y.unique().tolist())
)py"),
            "['freed', [10.0], [14.0]]");
}

TEST_F(EmptyCacheInPythonCapture, Reproduces) {
  std::string inside = "pass", after = "pass";
  TRIGGER(inside = "torch.cuda.empty_cache()");
  WITHOUT_TRIGGER(after = "torch.cuda.empty_cache()");
  REPRODUCES(run(kProgram, {{"inside", inside}, {"after", after}}), "ok > ok, cache kept [5.0] [7.0]",
             "ok > ok, cache freed [5.0] [7.0]");
}

TEST_F(EmptyCacheInPythonCapture, FixEmptyAfterCapture) {
  std::string inside = "torch.cuda.empty_cache()", after = "pass";
  REMEDY(std::swap(inside, after));
  EXPECT_EQ(run(kProgram, {{"inside", inside}, {"after", after}}), "ok > ok, cache freed [5.0] [7.0]");
}
