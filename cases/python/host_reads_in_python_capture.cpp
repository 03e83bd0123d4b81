// In Python, every way to look at a tensor's values during a capture invalidates it.
//
// The document's table of culprits, each put into its program: a copy to the CPU, NumPy, print() and a branch on a
// tensor. None says that it waits for the GPU, and all do. numpy() of a GPU tensor is refused anywhere, so the copy
// that has to come before it is what a capture breaks on.
//
// Alone:  g++ cases/python/host_reads_in_python_capture.cpp $(ci/libtorch --flags) -o host_reads_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, copying, printing or branching on a tensor during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixCopyAfterReplay", "Call result.cpu() after graph.replay(), outside the torch.cuda.graph block."},
              {"FixCopyWithoutBlockingAfterReplay",
               "After graph.replay(), call to('cpu', non_blocking=True), and torch.cuda.synchronize() before you read "
               "the copy."},
              {"FixPrintAfterReplay", "Print the tensor after graph.replay(), not inside the torch.cuda.graph block."},
              {"FixWhere",
               "Replace a Python 'if' on a tensor by torch.where(condition, a, b), which decides on the GPU at every "
               "replay."}},
};

class HostReadsInPythonCapture : public PythonProgramTest {
 protected:
  std::string with(const std::string& line) {
    return run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(1, device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        result = data * 2
        {line}
)py",
               {{"line", line}});
  }
  std::string replayed(const std::string& inside, const std::string& after) {
    return run(R"py(
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
    {after}
)py",
               {{"inside", inside}, {"after", after}});
  }
};

TEST_F(HostReadsInPythonCapture, Control) { EXPECT_EQ(with("final = torch.where(result > 0, result, 0)"), "ok > ok"); }

TEST_F(HostReadsInPythonCapture, ControlNumpyRefusesGpuTensors) {
  const std::string seen =
      run("import torch\ntry:\n    seen = torch.ones(1, device='cuda').numpy()\nexcept Exception as e:\n    seen = "
          "failure(e)");
  EXPECT_THAT(seen, testing::AnyOf(testing::StartsWith("TypeError: can't convert cuda:0 device type tensor to numpy"),
                                   testing::StartsWith("RuntimeError: Numpy is not available")));
}

TEST_F(HostReadsInPythonCapture, ReproducesCpu) {
  std::string line = "pass";
  TRIGGER(line = "value = result.cpu()");
  REPRODUCES(with(line), "900 > 901", "ok > ok");
}

TEST_F(HostReadsInPythonCapture, ReproducesNumpy) {
  std::string line = "pass";
  TRIGGER(line = "value = result.cpu().numpy()");
  REPRODUCES(with(line), "900 > 901", "ok > ok");
}

TEST_F(HostReadsInPythonCapture, ReproducesPrint) {
  std::string line = "pass";
  TRIGGER(line = "print(result)");
  REPRODUCES(with(line), "900 > 901", "ok > ok");
}

TEST_F(HostReadsInPythonCapture, ReproducesBranch) {
  std::string line = "pass";
  TRIGGER(line = "if result > 0: result = result * 3");
  REPRODUCES(with(line), "900 > 901", "ok > ok");
}

TEST_F(HostReadsInPythonCapture, FixCopyAfterReplay) {
  EXPECT_EQ(replayed("pass", "seen += result.cpu().tolist()"), "[10.0, -14.0]");
}

TEST_F(HostReadsInPythonCapture, FixCopyWithoutBlockingAfterReplay) {
  EXPECT_EQ(replayed("pass", "c = result.to('cpu', non_blocking=True); torch.cuda.synchronize(); seen += c.tolist()"),
            "[10.0, -14.0]");
}

TEST_F(HostReadsInPythonCapture, FixPrintAfterReplay) {
  EXPECT_EQ(replayed("pass", "seen.append(repr(result).split(']')[0])"), "['tensor([10.', 'tensor([-14.']");
}

TEST_F(HostReadsInPythonCapture, FixWhere) {
  EXPECT_EQ(replayed("final = torch.where(result > 0, result * 3, result)", "seen += final.tolist()"), "[30.0, -14.0]");
}
