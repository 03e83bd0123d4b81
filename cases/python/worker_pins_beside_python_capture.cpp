// In Python, a worker thread that pins memory breaks the capture of the main thread.
//
// The document's program: a pinned tensor is dropped while its copy to the GPU is outstanding, so the allocator of
// pinned memory keeps an event, and queries it before the next allocation. The worker's pin_memory() falls into a
// global capture, where the query is forbidden. Later releases of torch.cuda.graph empty that cache on entry, event
// included; there the worker's cudaHostAlloc would fail in the query's place. So the function that empties it is
// replaced by one that does nothing, and the allocation by itself is a test of its own, our addition. Where the
// document sleeps for a second, the main thread waits for the worker with queue.join().
//
// Alone:  g++ cases/python/worker_pins_beside_python_capture.cpp $(tools/libtorch --flags) -o worker_pins_beside_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, pin_memory() in a worker thread invalidates the main thread's capture",
    .sources = {{"capture failures", "Pinned Memory Allocation: Hidden Event Queries"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900): operation not permitted when stream is capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"pinned memory", "data loader", "threads"},
    .features = {"pinned memory", "threads"},
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
  std::string with(const std::string& before, const std::string& mode, const std::string& inside,
                   const std::string& event =
                       "t1 = torch.randn(8).pin_memory(); t2 = t1.to(device='cuda', "
                       "non_blocking=True); del t1") {
    return run(R"py(
import queue, threading
import torch
torch._C._host_emptyCache = lambda: None
worker_saw = "idle"
def worker(q):
    global worker_saw, pinned_data
    while True:
        data = q.get()
        try:
            pinned_data = data.pin_memory()
            worker_saw = "ok"
        except Exception as e:
            worker_saw = failure(e)
        q.task_done()

q = queue.Queue()
threading.Thread(target=worker, args=(q,), daemon=True).start()
graph = torch.cuda.CUDAGraph()
x = torch.randn(8, device="cuda")
{event}
data = torch.full((8,), 4.0)
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
    if "gpu_data" in globals():
        for value in (6, 8):
            pinned_data.fill_(value)
            graph.replay()
            seen += f" {gpu_data.unique().tolist()}"
)py",
               {{"before", before}, {"mode", mode}, {"inside", inside}, {"event", event}});
  }
};

TEST_F(WorkerPinsBesidePythonCapture, Control) {
  EXPECT_EQ(with("pass", "global", "pass"), "worker idle, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, Reproduces) {
  std::string inside = "pass";
  TRIGGER(inside = "q.put(data)");
  RAISED_BY("cuEventQuery");
  REPRODUCES(with("pass", "global", inside), "worker 900, capture * > 901", "worker *, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, ReproducesByTheAllocation) {
  std::string inside = "pass";
  TRIGGER(inside = "q.put(data)");
  RAISED_BY("cuMemHostAlloc*");
  REPRODUCES(with("pass", "global", inside, "pass"), "worker 900, capture * > 901",
             "worker *, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixStopTheWorker) {
  std::string before = "pass", inside = "q.put(data)";
  REMEDY(before = "q.put(data); q.join()", inside = "pass");
  EXPECT_EQ(with(before, "global", inside), "worker ok, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixThreadLocalMode) {
  std::string mode = "global";
  REMEDY(mode = "thread_local");
  EXPECT_EQ(with("pass", mode, "q.put(data)"), "worker ok, capture ok > ok [3.0] [5.0]");
}

TEST_F(WorkerPinsBesidePythonCapture, FixPinBefore) {
  const std::string copy = "gpu_data = pinned_data.to('cuda', non_blocking=True)";
  std::string before = "pass", inside = "q.put(data); q.join(); " + copy;
  REMEDY(before = "q.put(data); q.join()", inside = copy);
  EXPECT_EQ(with(before, "global", inside), "worker ok, capture ok > ok [3.0] [5.0] [6.0] [8.0]");
}
