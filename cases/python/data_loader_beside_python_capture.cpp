// In Python, a DataLoader with pin_memory=True now and then breaks a capture of the thread that consumes its batches.
//
// The document's program: 100 rows of 1024*1024 numbers, batches of two, one worker, a graph captured for every batch.
// Meanwhile the loader's thread pins the next batches, and a capture that this falls into ends in 901. It is one of
// the first captures of the process, or none: a run is one try (data_loader_started_beside_capture). The test goes
// through the data until it has seen that once or 20 seconds have passed, and stops there: after a failed capture the
// process is no longer the one that the document describes. The worker is a fork of the test: newer Pythons would start
// a new interpreter, which has no file to import this program from.
//
// Alone:  g++ cases/python/data_loader_beside_python_capture.cpp $(tools/libtorch --flags) -o data_loader_beside_python_capture

#include <sstream>

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a DataLoader's pinning thread invalidates a capture that it falls into",
    .sources = {{"capture failures", "DataLoader Pin Memory Thread"}},
    .documented = "cudaErrorStreamCaptureInvalidated(901): operation failed due to a previous error during capture",
    .nature = Nature::Race,
    .fidelity = Fidelity::Verbatim,
    .tags = {"data loader", "pinned memory", "threads"},
    .features = {"data loader", "pinned memory"},
    .needs = "gpu python",
    .deadline_s = 180,
    .fixes =
        {{"FixThreadLocalMode",
          "Capture with capture_error_mode='thread_local', so that the DataLoader's thread may pin memory meanwhile."},
         {"FixDelayTheCapture",
          "Begin the capture only when the DataLoader has pinned every batch it prefetches: poll its iterator's "
          "_data_queue.qsize()."},
         {"FixWithoutPinnedMemory",
          "Construct the DataLoader with pin_memory=False, so that no pinning thread runs beside the capture."}},
    .stopping = StoppingRule::FirstFailureOr20Seconds,
};

class DataLoaderBesidePythonCapture : public PythonProgramTest {
 protected:
  // Captures a graph for each batch of the data and replays the last one twice.
  std::string epoch(const std::string& pin_memory, const std::string& mode, const std::string& before) {
    return run(R"py(
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
data = torch.randn(100, 1024*1024)
labels = torch.randint(0, 10, (100,))
dataset = TensorDataset(data, labels)
loader = DataLoader(dataset, batch_size=2, pin_memory={pin_memory}, num_workers=1, multiprocessing_context="fork")
x = torch.ones(64, device="cuda")
batches = iter(loader)
outcomes = set()
for left in reversed(range(len(loader))):
    batch = next(batches)
    {before}
    graph = torch.cuda.CUDAGraph()
    with Outcome() as outcome:
        with torch.cuda.graph(graph, capture_error_mode="{mode}"):
            y = torch.randn(64, device="cuda") * 0 + x
    outcomes.add(str(outcome))
seen = [*outcomes]
for value in (5, 7):
    x.fill_(value)
    graph.replay()
    seen.append(y.unique().tolist())
)py",
               {{"pin_memory", pin_memory}, {"mode", mode}, {"before", before}});
  }
};

// The loader has ended, and its thread with it, before the capture begins.
TEST_F(DataLoaderBesidePythonCapture, Control) {
  EXPECT_EQ(run(R"py(
import torch
from torch.utils.data import DataLoader, TensorDataset
dataset = TensorDataset(torch.randn(10, 1024*1024), torch.randint(0, 10, (10,)))
loader = DataLoader(dataset, batch_size=2, pin_memory=True, num_workers=1, multiprocessing_context="fork")
x = torch.ones(64, device="cuda")
batches = [(batch[0].is_pinned(), tuple(batch[0].shape)) for batch in loader]
graph = torch.cuda.CUDAGraph()
with Outcome() as outcome:
    with torch.cuda.graph(graph, capture_error_mode="global"):
        y = torch.randn(64, device="cuda") * 0 + x
seen = [len(batches), *set(batches), str(outcome)]
for value in (5, 7):
    x.fill_(value)
    graph.replay()
    seen.append(y.unique().tolist())
)py"),
            "[5, (True, (2, 1048576)), 'ok > ok', [5.0], [7.0]]");
}

TEST_F(DataLoaderBesidePythonCapture, ReproducesAtRate) {
  std::string pin_memory = "False";
  TRIGGER(pin_memory = "True");
  const std::string seen = run(R"py(
import time
import torch
from torch.utils.data import DataLoader, TensorDataset
data = torch.randn(100, 1024*1024)
labels = torch.randint(0, 10, (100,))
dataset = TensorDataset(data, labels)
loader = DataLoader(dataset, batch_size=2, pin_memory={pin_memory}, num_workers=1, multiprocessing_context="fork")
hits = tries = 0
end = time.monotonic() + 20
while not hits and time.monotonic() < end:
    for batch in loader:
        graph = torch.cuda.CUDAGraph()
        with Outcome() as outcome:
            with torch.cuda.graph(graph, capture_error_mode="global"):
                torch.randn(64, device="cuda")
        tries += 1
        hits += str(outcome).endswith(" > 901")
        if hits or time.monotonic() > end:
            break
seen = f"{hits} {tries}"
)py",
                               {{"pin_memory", pin_memory}});
  int hits = 0, tries = 0;
  std::istringstream(seen) >> hits >> tries;
  ASSERT_GT(tries, 0) << seen;
  REPRODUCES_AT_RATE(hits, tries);
}

TEST_F(DataLoaderBesidePythonCapture, FixThreadLocalMode) {
  std::string mode = "global";
  REMEDY(mode = "thread_local");
  EXPECT_EQ(epoch("True", mode, "pass"), "['ok > ok', [5.0], [7.0]]");
}

// The document sleeps for two seconds, so that both prefetched batches are pinned by then.
TEST_F(DataLoaderBesidePythonCapture, FixDelayTheCapture) {
  std::string before = "pass";
  REMEDY(before = "while batches._data_queue.qsize() < min(2, left): time.sleep(0.001)");
  EXPECT_EQ(epoch("True", "global", before), "['ok > ok', [5.0], [7.0]]");
}

TEST_F(DataLoaderBesidePythonCapture, FixWithoutPinnedMemory) {
  std::string pin_memory = "True";
  REMEDY(pin_memory = "False");
  EXPECT_EQ(epoch(pin_memory, "global", "pass"), "['ok > ok', [5.0], [7.0]]");
}
