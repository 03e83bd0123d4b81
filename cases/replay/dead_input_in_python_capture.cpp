// In Python, a replay with a dead input computes with foreign values, unless the capture was told to check.
//
// A graph has the addresses of its inputs and keeps none of them alive. From 2.13 on torch.cuda.graph takes
// check_input_liveness=True, and a replay then raises as soon as a tensor that the capture read has been freed; the
// default is still not to look. input_freed_after_capture has the same without Python, where there is no check.
//
// Alone:  g++ cases/replay/dead_input_in_python_capture.cpp $(tools/libtorch --flags) -o dead_input_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a replay whose input has been freed computes with the values of the memory's next owner",
    .sources = {{"CUDA graph guide", "Numerical Errors"}, {"PyTorch documentation", "torch.cuda.graph"}},
    .documented = "the block is used again: the replay reads foreign data",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepTheInput", "Keep a reference to each tensor that a capture reads while its graph is in use."},
              {"FixCheckInputLiveness",
               "Capture with torch.cuda.graph(..., check_input_liveness=True) to have a replay raise (2.13 on).",
               ">=2.13"}},
};

class DeadInputInPythonCapture : public PythonProgramTest {
 protected:
  // Three replays while another tensor of the size has 5, 7 and 9. `drop` comes after the capture.
  std::string replayed(const std::string& drop, const std::string& options = "") {
    return run(R"py(
import torch
count = 16 << 20  # 64 MiB, which have a segment of their own.
x = torch.full((count,), 3.0, device="cuda")
x[-1:] * 2
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph{options}):
    y = x[-1:] * 2
{drop}
other = torch.empty(count, device="cuda")
seen = []
try:
    for value in (5.0, 7.0, 9.0):
        other.fill_(value)
        graph.replay()
        seen.append(y.item())
except RuntimeError as refused:
    seen.append("dead" if "dead" in str(refused) else str(refused))
)py",
               {{"drop", drop}, {"options", options}});
  }
};

TEST_F(DeadInputInPythonCapture, Control) { EXPECT_EQ(replayed("pass"), "[6.0, 6.0, 6.0]"); }

TEST_F(DeadInputInPythonCapture, Reproduces) {
  std::string drop = "pass";
  TRIGGER(drop = "del x");
  REPRODUCES(replayed(drop), "[10.0, 14.0, 18.0]", "[6.0, 6.0, 6.0]");
}

TEST_F(DeadInputInPythonCapture, FixKeepTheInput) {
  std::string drop = "del x";
  REMEDY(drop = "kept = x; del x");
  EXPECT_EQ(replayed(drop), "[6.0, 6.0, 6.0]");
}

TEST_F(DeadInputInPythonCapture, FixCheckInputLiveness) {
  if (value_of("'check_input_liveness' in str(__import__('inspect').signature(torch.cuda.graph.__init__))") != "True") {
    NOT_APPLICABLE("torch.cuda.graph has no check_input_liveness");
  }
  std::string options;
  REMEDY(options = ", check_input_liveness=True");
  EXPECT_EQ(replayed("del x", options), "['dead']");
}
