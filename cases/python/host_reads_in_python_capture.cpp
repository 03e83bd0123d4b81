// In Python, every way to look at a tensor's values during a capture invalidates it.
//
// The document's table of culprits, each put into its program: a copy to the CPU, NumPy, print() and a branch on a
// tensor. None of them looks as if it waited for the GPU, and all do. numpy() refuses a GPU tensor even without a
// capture, so what breaks the capture is the copy that has to come first.
//
// Alone:  g++ cases/python/host_reads_in_python_capture.cpp $(tools/libtorch --flags) -o host_reads_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, copying, printing or branching on a tensor during a capture invalidates it",
    .sources = {{"capture failures", "Host-Device Sync: Forbidden Operations"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"host reads"},
    .features = {"host reads"},
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
if str(seen) == "ok > ok":
    for value in (5, -7):
        data.fill_(value)
        graph.replay()
        seen = f"{seen} {result.tolist()}"
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

constexpr char kHealthy[] = "ok > ok [10.0] [-14.0]";

TEST_F(HostReadsInPythonCapture, Control) { EXPECT_EQ(with("pass"), kHealthy); }

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
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(HostReadsInPythonCapture, ReproducesNumpy) {
  std::string line = "pass";
  TRIGGER(line = "value = result.cpu().numpy()");
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(HostReadsInPythonCapture, ReproducesPrint) {
  std::string line = "pass";
  TRIGGER(line = "print(result)");
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(HostReadsInPythonCapture, ReproducesBranch) {
  std::string line = "pass";
  TRIGGER(line = "if result > 0: result = result * 3");
  REPRODUCES(with(line), "900 > 901", kHealthy);
}

TEST_F(HostReadsInPythonCapture, FixCopyAfterReplay) {
  std::string inside = "pass";
  WITHOUT_REMEDY(inside = "value = result.cpu()");
  EXPECT_EQ(replayed(inside, "seen += result.cpu().tolist()"), "[10.0, -14.0]");
}

TEST_F(HostReadsInPythonCapture, FixCopyWithoutBlockingAfterReplay) {
  std::string inside = "pass";
  WITHOUT_REMEDY(inside = "value = result.cpu()");
  EXPECT_EQ(replayed(inside, "c = result.to('cpu', non_blocking=True); torch.cuda.synchronize(); seen += c.tolist()"),
            "[10.0, -14.0]");
}

TEST_F(HostReadsInPythonCapture, FixPrintAfterReplay) {
  std::string inside = "pass";
  WITHOUT_REMEDY(inside = "print(result)");
  EXPECT_EQ(replayed(inside, "seen.append(repr(result).split(']')[0])"), "['tensor([10.', 'tensor([-14.']");
}

TEST_F(HostReadsInPythonCapture, FixWhere) {
  std::string inside = "final = result * 3 if result > 0 else result";
  REMEDY(inside = "final = torch.where(result > 0, result * 3, result)");
  EXPECT_EQ(replayed(inside, "seen += final.tolist()"), "[30.0, -14.0]");
}
