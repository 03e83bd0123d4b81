// In Python, a graph that the garbage collector destroys inside another capture invalidates it.
//
// A graph in a reference cycle, such as a callable that refers to itself, lives until the collector runs, which may be
// at any allocation of an object. Destroying the graph is not allowed in a global capture, and LibTorch makes a warning
// of the refusal, so the capture's end is the first to fail. torch.cuda.graph collected before it began a capture, and
// from 2.9 on it switches the collector off instead; that helps against the collector, and not against a program that
// calls gc.collect() in the capture. graph_destroyed_in_capture has the same without Python.
//
// Alone:  g++ cases/hang/graph_collected_in_python_capture.cpp $(tools/libtorch --flags) -o graph_collected_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a graph that the garbage collector destroys in a capture invalidates it",
    .sources = {{"upstream", "pytorch#161037"}, {"upstream", "pytorch#195397"}},
    .documented = "Warning: operation not permitted when stream is capturing; capture_end 901",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"any program", "several graphs", "graphed callables"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixCollectBeforeTheCapture",
               "Call gc.collect() before a capture, and neither drop graphs nor collect inside it."},
              {"FixNoCycle",
               "Break reference cycles around a CUDAGraph, or call reset() on it, before the next capture."}},
};

class GraphCollectedInPythonCapture : public PythonProgramTest {
 protected:
  // `before` comes before the capture, `inside` in it, after a graph in a cycle was dropped in between.
  std::string captured(const std::string& before, const std::string& inside) {
    return run(R"py(
import gc
import torch

x = torch.ones(1, device="cuda")
x * 2
gc.disable()  # What collects is what the program says.

class Holder:
    pass

old = Holder()
old.graph = torch.cuda.CUDAGraph()
old.itself = old
with torch.cuda.graph(old.graph):
    x + 1
old.graph.replay()
torch.cuda.synchronize()

graph = torch.cuda.CUDAGraph()
outcome = Outcome()
stream = torch.cuda.Stream()
dropped = [old]
del old
{before}
# As torch.cuda.graph does, which would collect first in old releases.
with outcome, torch.cuda.stream(stream):
    graph.capture_begin()
    try:
        y = x * 2
        dropped.clear()
        {inside}
    finally:
        def capture_end():
            graph.capture_end()
        capture_end()
replays = []
if str(outcome) == "ok > ok":
    for value in (5.0, 7.0, 9.0):
        x.fill_(value)
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        replays.append(y.item())
seen = f"{outcome}, {replays}"
)py",
               {{"before", before}, {"inside", inside}});
  }
  const std::string healthy = "ok > ok, [10.0, 14.0, 18.0]";
};

TEST_F(GraphCollectedInPythonCapture, Control) { EXPECT_EQ(captured("pass", "pass"), healthy); }

TEST_F(GraphCollectedInPythonCapture, Reproduces) {
  std::string inside = "pass";
  TRIGGER(inside = "gc.collect()");
  RAISED_BY("cuGraphExecDestroy*");
  REPRODUCES(captured("pass", inside), "ok > 901, []", healthy);
}

TEST_F(GraphCollectedInPythonCapture, FixCollectBeforeTheCapture) {
  std::string before = "pass", inside = "gc.collect()";
  REMEDY(before = "dropped.clear(); gc.collect()");
  EXPECT_EQ(captured(before, inside), healthy);
}

TEST_F(GraphCollectedInPythonCapture, FixNoCycle) {
  std::string before = "pass";
  REMEDY(before = "dropped[0].graph.reset()");
  EXPECT_EQ(captured(before, "gc.collect()"), healthy);
}
