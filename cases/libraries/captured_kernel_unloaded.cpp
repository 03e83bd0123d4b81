// Unloading a captured kernel before the graph is instantiated crashes the process.
//
// A graph does not keep its kernels loaded. A capture in relaxed mode does not refuse to unload one, as a library does
// when the last reference to a compiled kernel goes away. The graph then has a node whose function is gone, and the
// process ends with signal 11.
//
// Each program is a fork that uses CUDA by itself, so that a crash is a result and not the end of the test.
//
// Alone:  g++ cases/libraries/captured_kernel_unloaded.cpp $(tools/libtorch --flags) -o captured_kernel_unloaded

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <string>

#include "fixtures/cuda/capture.h"
#include "fixtures/cuda/modules.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A captured kernel whose module is unloaded before the graph is instantiated crashes the process",
    .sources = {{"upstream", "sglang#35427"}, {"CUDA runtime API", "cudaStreamBeginCapture: cudaStreamCaptureMode"}},
    .documented = "not documented; found by trying: signal 11",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"runtime compilation", "extensions", "raw CUDA calls"},
    .features = {"runtime compilation"},
    .effect = Effect::Crashes,
    .fixes = {{"FixUnloadAfterTheReplays",
               "Keep every captured kernel referenced, and so loaded, for as long as the graph is replayed."}},
};

namespace {

// How far a forked process came, in memory that it shares with this one.
struct Progress {
  const char* step = "fork()";  // The last call that was begun. The text has the same address in both processes.
  int error = 0;                // What that call returned.
};

// Makes a call, and leaves the function if it fails.
#define STEP(call)                              \
  do {                                          \
    progress.step = #call;                      \
    if ((progress.error = (call)) != 0) return; \
  } while (false)

enum class Unload { InTheCapture, AfterTheReplays };

// Captures `out = in` in relaxed mode, and replays it with three inputs.
void run(Progress& progress, Unload when) {
  void *in = nullptr, *out = nullptr;
  CopyModule module;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  STEP(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  STEP(cudaMalloc(&in, 1));
  STEP(cudaMalloc(&out, 1));
  STEP(module.load());
  STEP(cudaDeviceSynchronize());
  STEP(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  STEP(module.launch(out, in, stream));
  if (when == Unload::InTheCapture) STEP(module.unload());
  STEP(cudaStreamEndCapture(stream, &graph));
  STEP(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  for (const unsigned char value : {5, 7, 9}) {
    unsigned char left = 0;
    STEP(cudaMemsetAsync(in, value, 1, stream));
    STEP(cudaGraphLaunch(exec, stream));
    STEP(cudaMemcpyAsync(&left, out, 1, cudaMemcpyDeviceToHost, stream));
    STEP(cudaStreamSynchronize(stream));
    STEP(left != value);
  }
  if (when == Unload::AfterTheReplays) STEP(module.unload());
}

// How a process ends that runs only `body`: "ok", or its signal or error and the step that it came to.
std::string ending_of(const std::function<void(Progress&)>& body) {
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no shared memory";
  Progress& progress = *new (shared) Progress;
  const pid_t child = fork();
  if (child == 0) {
    body(progress);
    _exit(progress.error == 0 ? 0 : 1);
  }
  int ending = -1;
  EXPECT_EQ(waitpid(child, &ending, 0), child);
  if (WIFEXITED(ending) && WEXITSTATUS(ending) == 0) return "ok";
  const std::string how =
      WIFSIGNALED(ending) ? "signal " + std::to_string(WTERMSIG(ending)) : "error " + std::to_string(progress.error);
  return how + " in " + progress.step;
}

}  // namespace

class CapturedKernelUnloaded : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
    const std::string ending = ending_of([](Progress& progress) {
      int count = 0;
      STEP(cudaGetDeviceCount(&count));
      STEP(count == 0);
      STEP(cudaFree(nullptr));  // Makes the context.
      STEP(CopyModule().load());
    });
    if (ending != "ok") GTEST_SKIP() << "no GPU with a driver that compiles PTX: " << ending;
  }

  static std::string ending_with(Unload when) {
    return ending_of([=](Progress& progress) { run(progress, when); });
  }
};

TEST_F(CapturedKernelUnloaded, Control) { EXPECT_EQ(ending_with(Unload::AfterTheReplays), "ok"); }

TEST_F(CapturedKernelUnloaded, Reproduces) {
  Unload when = Unload::AfterTheReplays;
  TRIGGER(when = Unload::InTheCapture);
  REPRODUCES(ending_with(when), "signal 11 in cudaGraph*", "ok");
}

TEST_F(CapturedKernelUnloaded, FixUnloadAfterTheReplays) {
  Unload when = Unload::InTheCapture;
  REMEDY(when = Unload::AfterTheReplays);
  EXPECT_EQ(ending_with(when), "ok");
}
