// A potentially unsafe call just as a global capture of another thread begins or ends can crash inside the CUDA driver.
//
// cudaStreamCaptureModeGlobal forbids such calls to every thread of the process: they return 900
// (cudaErrorStreamCaptureUnsupported), and the capture ends with 901. If the call comes just as a capture begins or
// ends, the process may instead end by signal 11 inside libcuda.so.1, below cuEventQuery, cuStreamQuery, cuMemAlloc,
// cuMemHostAlloc or whatever the call was. No kernel takes part: one thread captures the copy of one byte again and
// again, another makes the call. PyTorch programs meet this with a DataLoader that pins memory, or with a watchdog that
// queries events, beside torch.cuda.graph.
//
// Alone: nvcc driver_crash_beside_capture.cu -o driver_crash_beside_capture && ./driver_crash_beside_capture TEST

#include <cuda_runtime.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>

constexpr int kProcesses = 6;
constexpr int kCaptures = 20'000;  // In each process, unless it crashes.

struct Resources {  // What the other thread's calls use; their work is finished before the first capture.
  cudaEvent_t finished = nullptr;
  cudaStream_t idle = nullptr;
};
struct Counts {  // In shared memory: it outlives the process that counts.
  std::atomic<int> captures{0}, failed{0};
};
enum Status { kDone = 0, kWrongValue = 10, kNoSetUp = 11 };
using Call = std::function<void(const Resources&)>;

void print_stack(int number) {
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), STDOUT_FILENO);
  signal(number, SIG_DFL);
  raise(number);
}

// Captures beside a thread that makes the call, then replays a last capture. Has a process of its own.
Status capture_beside(Counts& counts, cudaStreamCaptureMode mode, const Call& call, std::mutex* both) {
  Resources resources;
  cudaStream_t stream = nullptr;
  unsigned char *in = nullptr, *out = nullptr;
  for (const cudaError_t error :
       {cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
        cudaStreamCreateWithFlags(&resources.idle, cudaStreamNonBlocking),
        cudaEventCreateWithFlags(&resources.finished, cudaEventDisableTiming), cudaMalloc(&in, 1), cudaMalloc(&out, 1),
        cudaEventRecord(resources.finished, resources.idle), cudaDeviceSynchronize()}) {
    if (error != cudaSuccess) return kNoSetUp;
  }
  std::mutex nobody;
  const auto captured = [&]() -> cudaGraph_t {
    const std::lock_guard<std::mutex> lock(both ? *both : nobody);
    cudaGraph_t graph = nullptr;
    (void)cudaStreamBeginCapture(stream, mode);
    (void)cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream);
    return cudaStreamEndCapture(stream, &graph) == cudaSuccess ? graph : nullptr;
  };
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    while (!stop) {
      std::unique_lock<std::mutex> lock;
      if (both) lock = std::unique_lock<std::mutex>(*both);
      call(resources);
      (void)cudaGetLastError();
    }
  });
  for (int i = 0; i < kCaptures; ++i) {
    ++counts.captures;
    cudaGraph_t graph = captured();
    if (graph) cudaGraphDestroy(graph);
    if (!graph) ++counts.failed;
  }
  stop = true;
  caller.join();
  cudaGraphExec_t exec = nullptr;
  unsigned char left = 0;
  (void)cudaGetLastError();
  if (cudaGraphInstantiateWithFlags(&exec, captured(), 0) != cudaSuccess) return kWrongValue;
  for (const cudaError_t error :
       {cudaMemsetAsync(in, 7, 1, stream), cudaGraphLaunch(exec, stream),
        cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream), cudaStreamSynchronize(stream)}) {
    if (error != cudaSuccess) return kWrongValue;
  }
  return left == 7 ? kDone : kWrongValue;
}

[[noreturn]] void end(int status, const std::string& words) {
  std::printf("%s: %s\n", status == 1 ? "REPRODUCED" : status == 0 ? "NOT REPRODUCED" : "COULD NOT RUN", words.c_str());
  std::exit(status);
}

int main(int count, char** arguments) {
  const std::string test = count > 1 ? arguments[1] : "";
  std::mutex mutex, *both = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  Call call = [](const Resources& its) { (void)cudaEventQuery(its.finished); };
  if (test == "ControlNobodyCalls") {
    call = [](const Resources&) {};
  } else if (test == "ReproducesByStreamQuery") {
    call = [](const Resources& its) { (void)cudaStreamQuery(its.idle); };
  } else if (test == "ReproducesByAllocation") {
    call = [](const Resources&) {
      void* memory = nullptr;
      if (cudaMalloc(&memory, 64) == cudaSuccess) (void)cudaFree(memory);
    };
  } else if (test == "ReproducesByPinnedAllocation") {
    call = [](const Resources&) {
      void* memory = nullptr;
      if (cudaMallocHost(&memory, 64) == cudaSuccess) (void)cudaFreeHost(memory);
    };
  } else if (test == "FixThreadLocalMode") {
    mode = cudaStreamCaptureModeThreadLocal;
  } else if (test == "FixRelaxedMode") {
    mode = cudaStreamCaptureModeRelaxed;
  } else if (test == "FixOneLockForBoth") {
    both = &mutex;
  } else if (test != "ReproducesByEventQuery") {
    end(2, "there is no test " + test);
  }
  void* const shared = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Counts& counts = *new (shared) Counts;
  int crashed = 0;
  for (int i = 0; i < kProcesses; ++i) {  // This process must not touch CUDA, or its forks could not use it.
    const pid_t child = fork();
    if (child == 0) {
      void* frame = nullptr;
      if (i == 0 && backtrace(&frame, 1) == 1) signal(SIGSEGV, print_stack);  // Called once before: it loads libgcc.
      _exit(capture_beside(counts, mode, call, both));
    }
    int ending = 0;
    waitpid(child, &ending, 0);
    crashed += WIFSIGNALED(ending);
    if (WIFEXITED(ending) && WEXITSTATUS(ending) == kNoSetUp) end(2, "no GPU, or no CUDA driver");
    if (WIFEXITED(ending) && WEXITSTATUS(ending) == kWrongValue) end(2, "the last capture replays a wrong value");
  }
  const std::string failed =
      std::to_string(counts.failed) + " of " + std::to_string(counts.captures) + " captures failed";
  if (crashed > 0) end(1, std::to_string(crashed) + " of 6 processes crashed; " + failed);
  end(test[0] != 'R' && counts.failed > 0, "no process crashed; " + failed);
}
