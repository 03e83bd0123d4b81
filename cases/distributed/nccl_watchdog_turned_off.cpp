// The document's remedy before 2.2, NCCL_ASYNC_ERROR_HANDLING=0, for a capture beside an outstanding collective.
//
// This is the document's remedy for old releases. There NCCL's watchdog queries the collective while the capture is
// open, and its exception ends the process. Whether the variable helps there is not tried; in 2.1.2 the watchdog asks
// with it as well (nccl_error_handling_off). Newer releases need no variable: from 2.1.1 on the capture waits, or the
// watchdog queries in thread-local mode, as nccl_watchdog_in_capture shows. A collective is held up on the GPU as the
// capture begins, and the capture stays open until it is done.
//
// Alone:  g++ cases/distributed/nccl_watchdog_turned_off.cpp $(tools/libtorch --flags) -o nccl_watchdog_turned_off

#include "fixtures/torch/nccl.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Up to 2.1.0, NCCL's watchdog ends the process for a capture beside a collective",
    .sources = {{"capture failures", "NCCL Watchdog Thread"}, {"upstream", "pytorch#111875"}},
    .documented = "the watchdog thread may query CUDA events during capture, causing cudaErrorStreamCaptureUnsupported",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NCCL", "DDP", "FSDP", "threads", "events"},
    .features = {"NCCL"},
    .needs = "ranks",
    .deadline_s = 120,
    .effect = Effect::Crashes,
    .fixes = {{"FixErrorHandlingOff",
               "Up to PyTorch 2.1.0, set NCCL_ASYNC_ERROR_HANDLING=0 before the process group is made; time-outs of "
               "collectives then go unnoticed.",
               "<2.2"}},
    .connections = 8,
};

constexpr char kHealthy[] = "ok > active > ok";
constexpr bool kAsks = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 1 && TORCH_VERSION_PATCH == 0;

class NcclWatchdogTurnedOff : public NcclTest {
 protected:
  // A capture that begins beside a collective and ends when the collective is done.
  std::string captured(bool outstanding, const std::map<std::string, std::string>& variables) {
    return on_ranks(
        1,
        [&](const Rank& rank) {
          constexpr int64_t kCycles = 1'000'000'000;  // Some half second, and the watchdog looks ten times a second.
          const Nccl nccl = nccl_of(rank);
          const at::Tensor x = at::full({8}, 3, at::kCUDA);
          at::Tensor out;
          at::cuda::CUDAEvent finished;
          if (outstanding) {
            at::cuda::sleep(kCycles);
            std::vector<at::Tensor> sum{at::ones({8}, at::kCUDA)};
            nccl->allreduce(sum)->wait();
          }
          finished.record(stream);
          graph->capture_begin();
          const Failure first = failure_of([&] { out = x + 1; });
          {
            const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);  // We may ask.
            while (!finished.query()) {
            }
          }
          nccl->waitForPendingWorks();  // Asks the watchdog's lists, and not CUDA.
          const std::string status = capture_status(stream);
          const Failure end = failure_of([&] { graph->capture_end(); });
          for (const int value : {5, 7}) {
            if (end) break;
            x.fill_(value);
            graph->replay();
            EXPECT_EQ(values(out), std::vector<double>(8, value + 1.0));
          }
          return seen(first, status, end);
        },
        variables);
  }
};

TEST_F(NcclWatchdogTurnedOff, ControlNothingOutstanding) {
  NEEDS_GPUS(1);
  EXPECT_EQ(captured(false, {}), kHealthy);
}

TEST_F(NcclWatchdogTurnedOff, Reproduces) {
  NEEDS_GPUS(1);
  bool outstanding = false;
  TRIGGER(outstanding = true);
  const std::string found = captured(outstanding, {});
  RAISED_BY("cuEventQuery");
  REPRODUCES(found, "rank 0 died first: signal 6", kHealthy);
}

TEST_F(NcclWatchdogTurnedOff, FixErrorHandlingOff) {
  NEEDS_GPUS(1);
  if (!kAsks) REMEDY_STAYS("from 2.1.1 on the capture is intact in any case");
  std::map<std::string, std::string> variables;
  REMEDY(variables["NCCL_ASYNC_ERROR_HANDLING"] = "0");
  EXPECT_EQ(captured(true, variables), kHealthy);
}
