// In Python, a worker thread that pins memory breaks the capture of the main thread.
//
// The document's program: a pinned tensor is dropped while its copy to the GPU is outstanding, so the allocator of
// pinned memory holds an event, and asks about it before it gives out anything. The worker's pin_memory() falls into a
// global capture, where the query is forbidden. Later releases empty that cache on entry to torch.cuda.graph, and then
// cudaHostAlloc fails in the query's place, with the same number. The main thread waits for the worker with
// queue.join() and not for a second.
//
// Alone:  g++ cases/python/worker_pins_beside_python_capture.cpp $(ci/libtorch --flags) -o worker_pins_beside_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, pin_memory() in a worker thread invalidates the main thread's capture",
    .sources = {{"capture failures", "Pinned Memory Allocation: Hidden Event Queries"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes =
        {{"FixStopTheWorker",
          "Wait with queue.join() until the worker has pinned all its data, and give it no more before the capture has "
          "ended."},
         {"FixThreadLocalMode",
          "Capture with capture_error_mode='thread_local', so that a worker thread may call pin_memory() meanwhile."},
         {"FixPinBefore",
          "Call pin_memory() before the capture, and only copy inside it, with to('cuda', non_blocking=True)."}},
};

class WorkerPinsBesidePythonCapture : public PythonProgramTest {
 protected:
  std::string with(const std::string& before, const std::string& mode, const std::string& inside) {
    return run(R"py(
import queue, threading
import torch
worker_saw = "idle"
def worker(q):
    global worker_saw
    while True:
        data = q.get()
        try:
            data.pin_memory()
            worker_saw = "ok"
        except Exception as e:
            worker_saw = failure(e)
        q.task_done()

q = queue.Queue()
threading.Thread(target=worker, args=(q,), daemon=True).start()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
t1 = torch.randn(8).pin_memory()
t2 = t1.to(device="cuda", non_blocking=True)
del t1
data = torch.randn(8)
{before}
with Outcome() as outcome:
    with torch.cuda.graph(graph, capture_error_mode="{mode}"):
        z = x + 1
        {inside}
        q.join()
        z = z / 2
seen = f"worker {worker_saw}, capture {outcome}"
if str(outcome) == "ok > ok":
    for value in (5, 9):
        x.fill_(value)
        graph.replay()
        seen += f" {z.unique().tolist()}"
)py",
               {{"before", before}, {"mode", mode}, {"inside", inside}});
  }
};

TEST_F(WorkerPinsBesidePythonCapture, Control) {
  EXPECT_EQ(with("pass", "global", "pass"), "worker idle, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, Reproduces) {
  std::string inside = "pass";
  TRIGGER(inside = "q.put(data)");
  REPRODUCES(with("pass", "global", inside), "worker 900, capture * > 901", "worker *, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixStopTheWorker) {
  EXPECT_EQ(with("q.put(data); q.join()", "global", "pass"), "worker ok, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixThreadLocalMode) {
  EXPECT_EQ(with("pass", "thread_local", "q.put(data)"), "worker ok, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixPinBefore) {
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
data = torch.randn(8)
pinned_data = data.pin_memory()
with torch.cuda.graph(graph):
    gpu_data = pinned_data.to("cuda", non_blocking=True)
seen = []
for value in (5, 9):
    pinned_data.fill_(value)
    graph.replay()
    seen.append(gpu_data.unique().tolist())
)py"),
            "[[5.0], [9.0]]");
}
