// In Python, torch.cuda.graph() captures in global mode by default, so an event query of any thread breaks it.
//
// This is the document's program with a worker thread, without its capture_error_mode. The worker's query of an event
// fails with 900, and the capture ends in 901. worker_queries_beside_python_capture passes the mode.
//
// Alone:  g++ cases/python/query_beside_default_python_capture.cpp $(tools/libtorch --flags) -o query_beside_default_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, torch.cuda.graph() without capture_error_mode is invalidated by another thread's event query",
    .sources = {{"capture failures", "Background Thread Queries"}},
    .documented = "CUDA's capture mode is global by default (capture_error_mode=\"global\")",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"threads", "events"},
    .features = {"threads", "events"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixNameTheMode",
               "Pass capture_error_mode='thread_local' to torch.cuda.graph(), so that a worker thread may call "
               "event.query() meanwhile."}},
};

class QueryBesideDefaultPythonCapture : public PythonProgramTest {
 protected:
  std::string with(const std::string& arguments, const std::string& inside) {
    return run(R"py(
import threading
import torch
worker_saw = "idle"
def worker():
    global worker_saw
    try:
        event.query()
        worker_saw = "ok"
    except Exception as e:
        worker_saw = failure(e)

event = torch.cuda.Event()
event.record()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
y = torch.full((8,), 2.0, device="cuda")
with Outcome() as outcome:
    with torch.cuda.graph(graph{arguments}):
        z = x + y
        {inside}
        z = z / y
seen = f"worker {worker_saw}, capture {outcome}"
if str(outcome) == "ok > ok":
    for value in (4, 8):
        x.fill_(value)
        graph.replay()
        seen += f" {z.unique().tolist()}"
)py",
               {{"arguments", arguments}, {"inside", inside}});
  }
};

constexpr char kAsk[] = "thread = threading.Thread(target=worker); thread.start(); thread.join()";

TEST_F(QueryBesideDefaultPythonCapture, Control) {
  EXPECT_EQ(with("", "pass"), "worker idle, capture ok > ok [3.0] [5.0]");
}

TEST_F(QueryBesideDefaultPythonCapture, Reproduces) {
  std::string inside = "pass";
  TRIGGER(inside = kAsk);
  RAISED_BY("cuEventQuery");
  REPRODUCES(with("", inside), "worker 900, capture * > 901", "worker *, capture ok > ok [3.0] [5.0]");
}

TEST_F(QueryBesideDefaultPythonCapture, FixNameTheMode) {
  std::string arguments;
  REMEDY(arguments = ", capture_error_mode='thread_local'");
  EXPECT_EQ(with(arguments, kAsk), "worker ok, capture ok > ok [3.0] [5.0]");
}
