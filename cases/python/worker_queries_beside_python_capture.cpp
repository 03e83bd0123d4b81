// In Python, a worker thread that queries an event breaks the capture of the main thread.
//
// The document's program: the rules of a global capture bind every thread of the process. The worker's query fails with
// 900, and the capture, which did nothing wrong itself, ends in 901. Where the document sleeps for a second, the main
// thread here waits for the worker with queue.join().
//
// Alone:  g++ cases/python/worker_queries_beside_python_capture.cpp $(tools/libtorch --flags) -o worker_queries_beside_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, an event query in a worker thread invalidates the main thread's capture",
    .sources = {{"capture failures", "Background Thread Queries"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"threads", "events"},
    .features = {"threads", "events"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes =
        {{"FixThreadLocalMode",
          "Capture with capture_error_mode='thread_local', so that a worker thread may call event.query() meanwhile."},
         {"FixQueryBefore",
          "Let the worker finish its event queries before the capture begins, for example with queue.join()."}},
};

class WorkerQueriesBesidePythonCapture : public PythonProgramTest {
 protected:
  std::string with(const std::string& before, const std::string& mode, const std::string& inside) {
    return run(R"py(
import queue, threading
import torch
worker_saw = "idle"
def worker(q):
    global worker_saw
    while True:
        event = q.get()
        try:
            event.query()
            worker_saw = "ok"
        except Exception as e:
            worker_saw = failure(e)
        q.task_done()

q = queue.Queue()
event = torch.cuda.Event()
event.record()
threading.Thread(target=worker, args=(q,), daemon=True).start()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
y = torch.full((8,), 2.0, device="cuda")
{before}
with Outcome() as outcome:
    with torch.cuda.graph(graph, capture_error_mode="{mode}"):
        z = x + y
        {inside}
        q.join()
        z = z / y
seen = f"worker {worker_saw}, capture {outcome}"
if str(outcome) == "ok > ok":
    for value in (4, 8):
        x.fill_(value)
        graph.replay()
        seen += f" {z.unique().tolist()}"
)py",
               {{"before", before}, {"mode", mode}, {"inside", inside}});
  }
};

TEST_F(WorkerQueriesBesidePythonCapture, Control) {
  EXPECT_EQ(with("pass", "global", "pass"), "worker idle, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerQueriesBesidePythonCapture, Reproduces) {
  std::string inside = "pass";
  TRIGGER(inside = "q.put(event)");
  RAISED_BY("cuEventQuery");
  REPRODUCES(with("pass", "global", inside), "worker 900, capture * > 901", "worker *, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerQueriesBesidePythonCapture, FixThreadLocalMode) {
  std::string mode = "global";
  REMEDY(mode = "thread_local");
  EXPECT_EQ(with("pass", mode, "q.put(event)"), "worker ok, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerQueriesBesidePythonCapture, FixQueryBefore) {
  std::string before = "pass", inside = "q.put(event); q.join()";
  REMEDY(std::swap(before, inside));
  EXPECT_EQ(with(before, "global", inside), "worker ok, capture ok > ok [3.0] [5.0]");
}
