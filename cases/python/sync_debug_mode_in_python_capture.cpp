// In Python, torch.cuda.set_sync_debug_mode() warns of a call that waits for the GPU, or refuses it.
//
// The document advises both modes. Mode 1 warns, and the call still invalidates the capture. Mode 2 raises before CUDA
// is called, so the capture goes on. Here the mode finds a copy to the host for NumPy, which belongs after the replay.
// sync_debug_mode_in_capture sets the mode in C++.
//
// Alone:  g++ cases/python/sync_debug_mode_in_python_capture.cpp $(tools/libtorch --flags) -o sync_debug_mode_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, sync debug mode warns of a copy to the host during a capture, or refuses it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "called a synchronizing CUDA operation: set_sync_debug_mode(1) warns, 2 raises",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"host reads"},
    .features = {"host reads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixFindBeforeTheCapture",
               "Run the code once under torch.cuda.set_sync_debug_mode('error') before the capture, and move what it "
               "reports out of the capture."},
              {"FixNumpyAfterReplay", "Call result.cpu().numpy() after graph.replay(), outside torch.cuda.graph."}},
};

class SyncDebugModeInPythonCapture : public PythonProgramTest {
 protected:
  // The warnings of a capture under a mode, how it went, and the values of two replays.
  std::string with(const std::string& mode, const std::string& line) {
    return run(R"py(
import warnings
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
(data * 2).cpu()
with warnings.catch_warnings(record=True) as caught, Outcome() as outcome:
    warnings.simplefilter("always")
    with torch.cuda.graph(graph):
        torch.cuda.set_sync_debug_mode({mode})
        try:
            result = data * 2
            {line}
        finally:
            torch.cuda.set_sync_debug_mode(0)
count = sum("called a synchronizing CUDA operation" in str(w.message) for w in caught)
seen = f"{count} warned of, {outcome}"
if str(outcome) == "ok > ok":
    for value in (5, -7):
        data.fill_(value)
        graph.replay()
        seen += f" {result.tolist()}"
)py",
               {{"mode", mode}, {"line", line}});
  }
};

constexpr char kHealthy[] = "0 warned of, ok > ok [10.0] [-14.0]";

TEST_F(SyncDebugModeInPythonCapture, Control) {
  EXPECT_EQ(with("1", "pass"), kHealthy);
  EXPECT_EQ(with("2", "pass"), kHealthy);
}

TEST_F(SyncDebugModeInPythonCapture, ReproducesAsWarning) {
  std::string line = "pass";
  TRIGGER(line = "value = result.item()");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(with("1", line), "1 warned of, 900 > 901", kHealthy);
}

TEST_F(SyncDebugModeInPythonCapture, ReproducesAsError) {
  std::string line = "pass";
  TRIGGER(line = "value = result.item()");
  REPRODUCES(with("2", line), "0 warned of, RuntimeError: called a synchronizing CUDA operation* > ok", kHealthy);
}

TEST_F(SyncDebugModeInPythonCapture, FixFindBeforeTheCapture) {
  std::string found = "pass";
  REMEDY(found = "torch.cuda.set_sync_debug_mode('error')");
  EXPECT_THAT(run(R"py(
import torch
data = torch.randn(1, device="cuda")
{found}
try:
    (data * 2).item()
    seen = "not found"
except RuntimeError as e:
    seen = failure(e)
finally:
    torch.cuda.set_sync_debug_mode(0)
)py",
                  {{"found", found}}),
              testing::StartsWith("RuntimeError: called a synchronizing CUDA operation"));
  EXPECT_EQ(with("2", "pass"), kHealthy);
}

TEST_F(SyncDebugModeInPythonCapture, FixNumpyAfterReplay) {
  if (value_of("__import__('importlib.util').util.find_spec('numpy') is not None") != "True") {
    GTEST_SKIP() << "no NumPy";
  }
  std::string inside = "value = result.cpu().numpy()";
  REMEDY(inside = "pass");
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with torch.cuda.graph(graph):
    result = data * 2
    {inside}
seen = []
for value in (5, -7):
    data.fill_(value)
    graph.replay()
    seen += result.cpu().numpy().tolist()
)py",
                {{"inside", inside}}),
            "[10.0, -14.0]");
}
