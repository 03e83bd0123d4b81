// A loader's thread that pins batches while another thread captures can invalidate the capture.
//
// Python's DataLoader with pin_memory=True pins each batch in a thread of its own, as far ahead as its queue allows.
// LibTorch's C++ loader has no such option, so a thread here does the same: it pins two rows of the data, puts them
// into a queue of two, and goes on. The consumer takes a batch, begins and ends a global capture, then copies the batch
// to the GPU without waiting and drops it, which leaves the loader an event to query. Whether a call of the loader
// falls into a capture depends on timing. One test counts how often one does, and it goes on after a failed capture, so
// that its number is none of a program that stops there; in all runs on record but one the call that broke the first
// capture was an allocation, cuMemHostAlloc; in one with 2.6.0 on an H100 it was a query, cuEventQuery. In another test
// a query falls into the capture by construction. A call that meets the very end of a capture can crash the process
// (driver_crash_beside_capture). Captures here have fifty operations, as a model's have many, so that nearly all calls
// come before the end.
//
// The loop is ours, the calls are LibTorch's; data_loader_started_beside_capture runs the real DataLoader.
//
// Alone:  g++ cases/pinned/pin_memory_loop_beside_capture.cpp $(tools/libtorch --flags) -o pin_memory_loop_beside_capture

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A thread that pins batches invalidates a capture that its allocation of pinned memory falls into",
    .sources = {{"capture failures", "DataLoader Pin Memory Thread"}},
    .documented = "cudaErrorStreamCaptureInvalidated(901): operation failed due to a previous error during capture",
    .nature = Nature::Race,
    .fidelity = Fidelity::Modelled,
    .tags = {"pinned memory", "data loader", "threads"},
    .features = {"pinned memory", "threads"},
    .fixes = {{"FixThreadLocalMode",
               "Capture with capture_error_mode='thread_local', so that the data loader's pinning thread cannot "
               "invalidate it."},
              {"FixWaitForTheLoader",
               "Begin the capture only when the loader has filled its queue and its pinning thread is idle."},
              {"FixWithoutPinnedMemory",
               "Create the DataLoader with pin_memory=False if captures happen while it loads."}},
    .stopping = StoppingRule::Captures300,
};

namespace {

constexpr int kTries = 300;
constexpr int kBatch = 2;
constexpr int kOperations = 50;

// Pins batches of `data` ahead of the consumer, until it is destroyed.
class Loader {
 public:
  Loader(at::Tensor data, bool pin_memory) : data_(std::move(data)), pin_memory_(pin_memory) {
    thread_ = std::thread([this] { pin_memory_loop(); });
  }
  ~Loader() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  at::Tensor next() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    at::Tensor batch = ready_.front();
    ready_.pop_front();
    idle_ = false;
    lock.unlock();
    changed_.notify_all();
    return batch;
  }
  // Returns when the loader has pinned one batch more than the queue holds and waits for the consumer to take one.
  void wait_until_idle() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return idle_; });
  }

 private:
  void pin_memory_loop() {
    for (int64_t row = 0;; row = (row + kBatch) % data_.size(0)) {
      at::Tensor batch = data_.narrow(0, row, kBatch);
      if (pin_memory_) failure_of([&] { batch = batch.pin_memory(); });
      std::unique_lock<std::mutex> lock(mutex_);
      if (ready_.size() == 2) {
        idle_ = true;
        changed_.notify_all();
      }
      changed_.wait(lock, [this] { return stop_ || ready_.size() < 2; });
      if (stop_) return;
      ready_.push_back(batch);
      lock.unlock();
      changed_.notify_all();
    }
  }
  const at::Tensor data_;
  const bool pin_memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<at::Tensor> ready_;
  bool idle_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace

class PinMemoryLoopBesideCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    in = at::full({64}, 1, at::kCUDA);
    data = at::full({16, 1 << 18}, 3, at::kFloat);
    target = at::empty({kBatch, 1 << 18}, at::kCUDA);
  }

  // One step of the document's loop: a capture, and use of the batch. False if the capture failed.
  bool step(const at::Tensor& batch, cudaStreamCaptureMode mode) {
    if (graph) earlier.push_back(std::move(graph));
    graph = make_graph();
    const Failure first = failure_of([&] {
      graph->capture_begin({0, 0}, mode);
      for (int i = 0; i < kOperations; ++i) out = in + 1;
    });
    nodes = captured_nodes(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    target.copy_(batch, /*non_blocking=*/true);
    return !first && !end;
  }

  void check_replays() {
    EXPECT_EQ(nodes, kOperations);
    for (const int value : {5, 7}) {
      in.fill_(value);
      graph->replay();
      EXPECT_EQ(values(out), std::vector<double>(64, value + 1.0));
    }
    EXPECT_EQ(target.min().item<float>(), 3);
  }

  at::Tensor in, out, data, target;
  int nodes = -1;
  std::vector<std::unique_ptr<Graph>> earlier;  // Kept: after a failed capture the allocator still refers to its graph.
};

// The same captures and copies, while no thread pins.
TEST_F(PinMemoryLoopBesideCapture, Control) {
  std::vector<at::Tensor> batches;
  for (int64_t row = 0; row < data.size(0); row += kBatch) batches.push_back(data.narrow(0, row, kBatch).pin_memory());
  for (int i = 0; i < kTries; ++i) ASSERT_TRUE(step(batches[i % batches.size()], cudaStreamCaptureModeGlobal));
  check_replays();
}

// The loader alone does no harm.
TEST_F(PinMemoryLoopBesideCapture, ControlNothingCaptured) {
  Loader loader(data, /*pin_memory=*/true);
  for (int i = 0; i < kTries; ++i) target.copy_(loader.next(), /*non_blocking=*/true);
  EXPECT_EQ(target.min().item<float>(), 3);
}

TEST_F(PinMemoryLoopBesideCapture, ReproducesAtRate) {
  bool pin_memory = false;
  TRIGGER(pin_memory = true);
  Loader loader(data, pin_memory);
  int hits = 0;
  for (int i = 0; i < kTries; ++i) hits += !step(loader.next(), cudaStreamCaptureModeGlobal);
  REPRODUCES_AT_RATE(hits, kTries);
}

TEST_F(PinMemoryLoopBesideCapture, ReproducesByConstruction) {
  target.copy_(data.narrow(0, 0, kBatch).pin_memory(), /*non_blocking=*/true);  // Leaves an event to query.
  std::promise<void> capturing;
  std::thread loader([&, opened = capturing.get_future()]() mutable {
    opened.wait();
    TRIGGER(failure_of([&] { data.narrow(0, kBatch, kBatch).pin_memory(); }));
  });
  graph->capture_begin();
  const Failure first = failure_of([&] { out = in + 1; });
  capturing.set_value();
  loader.join();
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { graph->capture_end(); });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen(first, status, end), "ok > invalidated > 901", "ok > active > ok");
}

TEST_F(PinMemoryLoopBesideCapture, FixThreadLocalMode) {
  Loader loader(data, /*pin_memory=*/true);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  REMEDY(mode = cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < kTries; ++i) ASSERT_TRUE(step(loader.next(), mode));
  check_replays();
}

TEST_F(PinMemoryLoopBesideCapture, FixWaitForTheLoader) {
  Loader loader(data, /*pin_memory=*/true);
  for (int i = 0; i < kTries; ++i) {
    const at::Tensor batch = loader.next();
    REMEDY(loader.wait_until_idle());
    ASSERT_TRUE(step(batch, cudaStreamCaptureModeGlobal));
  }
  check_replays();
}

TEST_F(PinMemoryLoopBesideCapture, FixWithoutPinnedMemory) {
  bool pin_memory = true;
  REMEDY(pin_memory = false);
  Loader loader(data, pin_memory);
  for (int i = 0; i < kTries; ++i) ASSERT_TRUE(step(loader.next(), cudaStreamCaptureModeGlobal));
  check_replays();
}
