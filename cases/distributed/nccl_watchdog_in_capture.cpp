// A query of whether a NCCL collective has finished breaks a global capture, and NCCL's watchdog asks all the time.
//
// ProcessGroupNCCL has a watchdog thread that asks of each outstanding collective whether it has finished, through
// WorkNCCL::finishedGPUExecutionInternal() and so cudaEventQuery. Any thread can ask the same by Work::isCompleted(),
// and does here while a capture is open. The watchdog itself asks beside a capture as well: a collective is held up on
// the GPU while the capture begins, and the capture stays open until the watchdog has seen it finish. 2.1.0 and older
// had nothing against that; 2.1.1 to 2.6 let capture_begin wait until nothing is outstanding, and from 2.7 on the
// watchdog asks in thread-local capture mode. The document says 2.2 and 2.6. Collectives that are issued in the capture
// are not handed to the watchdog. A stand-in for every release is in watchdog_query_in_capture.
//
// Alone:  g++ cases/distributed/nccl_watchdog_in_capture.cpp $(tools/libtorch --flags) -o nccl_watchdog_in_capture

#include <future>
#include <thread>

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Asking whether a NCCL collective has finished invalidates a capture, and NCCL's watchdog asks",
    .sources = {{"capture failures", "NCCL Watchdog Thread"},
                {"upstream", "pytorch#102542"},
                {"upstream", "pytorch#110665"},
                {"upstream", "pytorch#111875"},
                {"upstream", "pytorch#148594"},
                {"upstream", "pytorch#160398"}},
    .documented = "the watchdog thread may query CUDA events during capture, causing cudaErrorStreamCaptureUnsupported",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP", "threads", "events"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .fixes = {{"FixThreadLocalMode",
               "Capture with capture_error_mode='thread_local', so that other threads may ask whether collectives have "
               "finished."},
              {"FixAskAfterTheCapture",
               "Call Work.is_completed() in no thread while another one captures; ask after the capture."}},
    .connections = 8,
};

constexpr char kHealthy[] = "ok > active > ok";

class NcclWatchdogInCapture : public NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    if (!this_rank() || IsSkipped() || HasFatalFailure()) return;
    x = at::full({8}, 3, at::kCUDA);
    sum = at::ones({8}, at::kCUDA);
  }

  c10::intrusive_ptr<c10d::Work> all_reduce(const Nccl& nccl, const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    return nccl->allreduce(tensors);
  }

  void check_replays() {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(out), std::vector<double>(8, value + 1.0));
    }
  }

  // Captures in `mode` while another thread calls isCompleted() of a collective.
  std::string asked_beside(const Rank& rank, cudaStreamCaptureMode mode, bool asks) {
    const Nccl nccl = nccl_of(rank);
    const auto work = all_reduce(nccl, sum);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    nccl->waitForPendingWorks();
    Failure asking;
    std::promise<void> opened;
    std::thread thread([&, capturing = opened.get_future()]() mutable {
      capturing.wait();
      if (asks) asking = failure_of([&] { EXPECT_TRUE(work->isCompleted()); });
    });
    graph->capture_begin({0, 0}, mode);
    out = x + 1;
    opened.set_value();
    thread.join();
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    if (!end) check_replays();
    return seen(asking, status, end);
  }

  // Captures beside a collective that is outstanding as the capture begins, until the watchdog has seen it finish.
  std::string watched(const Rank& rank, bool outstanding) {
    constexpr int64_t kCycles = 1'000'000'000;  // Some half second, and the watchdog looks ten times a second.
    const Nccl nccl = nccl_of(rank);
    at::cuda::CUDAEvent finished;
    if (outstanding) {
      at::cuda::sleep(kCycles);
      all_reduce(nccl, sum)->wait();
    }
    finished.record(stream);
    graph->capture_begin();
    {
      const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);  // We may ask.
      record("outstanding", finished.query() ? "no" : "yes");
    }
    const Failure first = failure_of([&] { out = x + 1; });
    nccl->waitForPendingWorks();  // Asks the watchdog's lists, and not CUDA.
    const std::string status = capture_status(stream);
    const Failure end = failure_of([&] { graph->capture_end(); });
    if (!end) check_replays();
    return seen(first, status, end);
  }

  at::Tensor x, sum, out;
};

TEST_F(NcclWatchdogInCapture, Control) {
  NEEDS_GPUS(1);
  EXPECT_EQ(on_ranks(1, [&](const Rank& rank) { return asked_beside(rank, cudaStreamCaptureModeGlobal, false); }),
            kHealthy);
}

// Were they handed to the watchdog, it would query an event of the capture and end the process.
TEST_F(NcclWatchdogInCapture, ControlCollectiveOfTheCapture) {
  NEEDS_GPUS(1);
  EXPECT_EQ(on_ranks(1,
                     [&](const Rank& rank) {
                       const Nccl nccl = nccl_of(rank);
                       graph->capture_begin();
                       const Failure first = failure_of([&] {
                         out = x + 1;
                         all_reduce(nccl, out)->wait();
                       });
                       nccl->waitForPendingWorks();
                       const std::string status = capture_status(stream);
                       const Failure end = failure_of([&] { graph->capture_end(); });
                       check_replays();
                       return seen(first, status, end);
                     }),
            kHealthy);
}

TEST_F(NcclWatchdogInCapture, Reproduces) {
  NEEDS_GPUS(1);
  const std::string seen = on_ranks(1, [&](const Rank& rank) {
    bool asks = false;
    TRIGGER(asks = true);
    return asked_beside(rank, cudaStreamCaptureModeGlobal, asks);
  });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen, "900 > invalidated > 901", kHealthy);
}

TEST_F(NcclWatchdogInCapture, ReproducesOnTwoRanks) {
  NEEDS_GPUS(2);
  const std::string seen = on_ranks(2, [&](const Rank& rank) {
    bool asks = false;
    TRIGGER(asks = true);
    return asked_beside(rank, cudaStreamCaptureModeGlobal, asks);
  });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen, "900 > invalidated > 901", kHealthy);
}

// The watchdog itself, whose exception ends the process: up to 2.1.0.
TEST_F(NcclWatchdogInCapture, ReproducesByTheWatchdog) {
  NEEDS_GPUS(1);
  const std::string seen = on_ranks(1, [&](const Rank& rank) {
    bool outstanding = false;
    TRIGGER(outstanding = true);
    return watched(rank, outstanding);
  });
  REPRODUCES(seen, "rank 0 died first: signal 6", kHealthy);
}

// With timing the watchdog also asks whether a collective has begun, which 2.7 and 2.8 do outside their thread-local
// mode.
TEST_F(NcclWatchdogInCapture, ReproducesByTheWatchdogWithTiming) {
  NEEDS_GPUS(1);
  const std::string seen = on_ranks(1,
                                    [&](const Rank& rank) {
                                      bool outstanding = false;
                                      TRIGGER(outstanding = true);
                                      return watched(rank, outstanding);
                                    },
                                    {{"TORCH_NCCL_ENABLE_TIMING", "1"}});
  REPRODUCES(seen, "rank 0 died first: signal 6", kHealthy);
}

TEST_F(NcclWatchdogInCapture, ReproducesByTheWatchdogOnTwoRanks) {
  NEEDS_GPUS(2);
  const std::string seen = on_ranks(2, [&](const Rank& rank) {
    bool outstanding = false;
    TRIGGER(outstanding = true);
    return watched(rank, outstanding);
  });
  REPRODUCES(seen, "rank * died first: signal 6", kHealthy);
}

TEST_F(NcclWatchdogInCapture, FixThreadLocalMode) {
  NEEDS_GPUS(1);
  EXPECT_EQ(on_ranks(1,
                     [&](const Rank& rank) {
                       cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
                       REMEDY(mode = cudaStreamCaptureModeThreadLocal);
                       return asked_beside(rank, mode, true);
                     }),
            kHealthy);
}

TEST_F(NcclWatchdogInCapture, FixAskAfterTheCapture) {
  NEEDS_GPUS(1);
  EXPECT_EQ(on_ranks(1,
                     [&](const Rank& rank) {
                       bool asks = false;
                       WITHOUT_REMEDY(asks = true);
                       return asked_beside(rank, cudaStreamCaptureModeGlobal, asks);
                     }),
            kHealthy);
}
