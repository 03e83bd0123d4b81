// A thread's own mode decides whether another thread's global capture forbids it an unsafe call.
//
// cudaThreadExchangeStreamCaptureMode sets which captures bind a thread: in global mode, the default, every global
// capture of the process; in thread-local mode only its own; in relaxed mode none. The table makes one cudaMalloc
// beside a global capture for each of these modes, from the capturing thread and from another. The remedy is LibTorch's
// own guard around the call, which the device allocator and, from 2.7 on, NCCL's watchdog use.
//
// Alone:  g++ cases/threads/unsafe_call_under_thread_mode.cpp $(tools/libtorch --flags) -o unsafe_call_under_thread_mode

#include <thread>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A cudaMalloc beside a global capture is refused unless its own thread's mode allows it",
    .sources = {{"capture failures", "Memory Allocation and Deallocation"},
                {"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"}},
    .documented = "prohibited for every thread not itself in relaxed mode while any global capture is running",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads", "raw CUDA calls"},
    .features = {"threads"},
    .fixes = {{"FixRelaxedGuardInTheCapturingThread",
               "Put c10::cuda::CUDAStreamCaptureModeGuard(cudaStreamCaptureModeRelaxed) around a cudaMalloc in the "
               "capturing thread."},
              {"FixThreadLocalGuardInOtherThread",
               "Put c10::cuda::CUDAStreamCaptureModeGuard(cudaStreamCaptureModeThreadLocal) around the other thread's "
               "cudaMalloc."}},
};

class UnsafeCallUnderThreadMode : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3, at::kCUDA);
  }

  void check_replays(const at::Tensor& z) {
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(z), std::vector<double>(8, value + 1.0));
    }
  }

  at::Tensor x;
  void* memory = nullptr;
};

TEST_F(UnsafeCallUnderThreadMode, ControlModesAlone) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    std::thread([&] { const c10::cuda::CUDAStreamCaptureModeGuard other(mode); }).join();
  }
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(UnsafeCallUnderThreadMode, Reproduces) {
  const std::pair<const char*, cudaStreamCaptureMode> modes[] = {{"global", cudaStreamCaptureModeGlobal},
                                                                 {"thread-local", cudaStreamCaptureModeThreadLocal},
                                                                 {"relaxed", cudaStreamCaptureModeRelaxed}};
  std::string table;
  for (const auto& [name, mode] : modes) {
    for (const bool self : {true, false}) {
      cudaStream_t capturing;
      ASSERT_CUDA(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking));
      ASSERT_CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
      cudaError_t result = cudaSuccess;
      const auto call = [&, mode = mode] {
        const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
        TRIGGER(result = cudaMalloc(&memory, 1 << 20));
      };
      if (self) {
        call();
      } else {
        std::thread(call).join();
      }
      cudaGraph_t captured = nullptr;
      cudaStreamEndCapture(capturing, &captured);
      cudaGetLastError();
      table += (table.empty() ? "" : " ") + std::string(name) + (self ? "/self=" : "/other=") +
               (result == cudaSuccess ? "ok" : std::to_string(result));
    }
  }
  record("table.cudaMalloc", table);
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(table,
             "global/self=900 global/other=900 thread-local/self=900 thread-local/other=ok relaxed/self=ok "
             "relaxed/other=ok",
             "global/self=ok global/other=ok thread-local/self=ok thread-local/other=ok relaxed/self=ok "
             "relaxed/other=ok");
}

TEST_F(UnsafeCallUnderThreadMode, FixRelaxedGuardInTheCapturingThread) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    REMEDY(mode = cudaStreamCaptureModeRelaxed);
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    ASSERT_CUDA(cudaMalloc(&memory, 1 << 20));
  }
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}

TEST_F(UnsafeCallUnderThreadMode, FixThreadLocalGuardInOtherThread) {
  graph->capture_begin();
  const at::Tensor z = x + 1;
  Failure worker;
  std::thread([&] {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    REMEDY(mode = cudaStreamCaptureModeThreadLocal);
    const c10::cuda::CUDAStreamCaptureModeGuard guard(mode);
    worker = failure_of_code(cudaMalloc(&memory, 1 << 20));
  }).join();
  EXPECT_EQ(worker.text, "ok");
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  check_replays(z);
}
