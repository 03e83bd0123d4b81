// A graph with a grouped convolution in half precision crashes once PyTorch drops the cuDNN plan that it was captured
// with.
//
// PyTorch keeps cuDNN's plans of convolutions in a cache for each thread, of 10,000 plans or as many as
// TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT names. A further convolution in a full cache destroys the plan that was used the
// longest time ago, and nothing there knows of graphs. Programs make the cache small because a plan takes about 200 KiB
// of host memory: importing IOPaint sets the limit to 1. What cuDNN made for the plan alone is then gone. Where that
// was a captured kernel, the next cudaGraphLaunch() ends inside the driver with signal 11, as it does for any kernel
// that was unloaded. Other plans use kernels that stay loaded, and their graphs stay right. Which kind a plan is
// depends on the operator, its sizes and the version of cuDNN.
//
// With 2.11.0 (cuDNN 9.19) on an H200 it is convolutions with a group for each channel: transposed ones of four
// channels in half precision, and of one dimension in single precision too; in channels-last format also of 64
// channels, and such that are not transposed.
//
// If the plan is dropped in a capture, the capture fails: unloading the kernel is refused. A second convolution in the
// same capture does that, and so does a negative limit, with which a plan is destroyed right after its call.
//
// No document describes it. Our stress test of operators found it, which does other work between two replays. That a
// cache of cuDNN's plans which is too small makes replays crash is reported for FlashInfer, whose cache is its own.
//
// Each program is a fork that uses CUDA by itself, so that a crash is a result and not the end of the test.
//
// Alone:  g++ cases/libraries/convolution_plan_dropped.cpp $(tools/libtorch --flags) -o convolution_plan_dropped

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graph with a grouped convolution crashes once PyTorch drops its cuDNN plan from a small cache",
    .sources = {{"upstream", "pytorch#104369"},
                {"upstream", "flashinfer#1349"},
                {"PyTorch source", "aten/src/ATen/native/cudnn/Conv_v8.cpp: BenchmarkCache"}},
    .documented = "not documented; found by trying: signal 11 in a replay",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"cuDNN", "extensions", "cuDNN plan limit"},
    .features = {"cuDNN", "cuDNN plan limit"},
    .effect = Effect::Crashes,
    .fixes = {{"FixLeaveTheLimitAlone",
               "Leave TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT unset in a program that captures convolutions."},
              {"FixNoLimit",
               "Set TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT=0 before the first convolution: the cache then has no limit."},
              {"FixLargeEnoughCache",
               "Set TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT, before the first convolution, to more plans than a thread ever "
               "uses."},
              {"FixCaptureAgain", "Capture again after other convolutions have run."}},
};

namespace {

// A text that a fork leaves to its parent.
using Text = char[256];

// What `body` returns in a process of its own; "signal N" if it crashes, an exception's first line if it throws.
std::string outcome_of(const std::function<std::string()>& body) {
  void* const shared = mmap(nullptr, sizeof(Text), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no shared memory";
  char* const text = *new (shared) Text[1];
  const pid_t child = fork();
  if (child == 0) {
    std::string outcome;
    try {
      outcome = body();
    } catch (const c10::Error& error) {
      outcome = error.what_without_backtrace();
    }
    std::strncpy(text, outcome.substr(0, outcome.find('\n')).c_str(), sizeof(Text) - 1);
    _exit(0);
  }
  int ending = -1;
  EXPECT_EQ(waitpid(child, &ending, 0), child);
  const std::string outcome = WIFSIGNALED(ending) ? "signal " + std::to_string(WTERMSIG(ending)) : std::string(text);
  munmap(shared, sizeof(Text));
  return outcome;
}

// PyTorch reads it at the first convolution of a process.
void limit_plans(const char* most) { setenv("TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", most, 1); }

const at::TensorOptions kHalf = at::TensorOptions().device(at::kCUDA).dtype(at::kHalf);

// Each image's four channels by themselves.
at::Tensor transposed(const at::Tensor& x, const at::Tensor& weight) {
  return at::conv_transpose2d(x, weight, {}, 1, 0, 0, /*groups=*/4);
}

// Each takes a place in the cache.
void other_convolutions() {
  const at::Tensor weight = at::ones({5, 3, 3, 3}, at::kCUDA);
  for (const int64_t size : {17, 40}) at::conv2d(at::ones({2, 3, size, size}, at::kCUDA), weight);
  at::cuda::getCurrentCUDAStream().synchronize();
}

// The largest difference, in units of the largest right value.
double distance(const at::Tensor& seen, const at::Tensor& right) {
  return ((seen.cpu() - right).abs().max() / right.abs().max()).item<double>();
}

// A captured transposed convolution of one input. Lives in a fork.
struct Program {
  Program() {
    at::empty({1}, at::kCUDA);  // Initialises the allocator.
    c10::cuda::setCurrentCUDAStream(stream);
    x = at::zeros({2, 4, 4, 4}, kHalf);
    weight = at::ones({4, 1, 3, 3}, kHalf);
  }
  void capture() {
    y = transposed(x, weight);  // Makes the plan outside the capture.
    stream.synchronize();
    graph = make_graph();
    graph->capture_begin();
    y = transposed(x, weight);
    graph->capture_end();
  }
  // "right", or "wrong values" if a replay's differ from the CPU's.
  std::string replay() {
    for (int i = 0; i < 3; ++i) {
      const at::Tensor input = at::randn(x.sizes());
      x.copy_(input);
      graph->replay();
      stream.synchronize();
      if (!(distance(y, transposed(input, weight.cpu().to(at::kFloat))) < 1e-2))
        return "wrong values";  // A NaN is wrong, too.
    }
    return "right";
  }

  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  std::unique_ptr<Graph> graph;
  at::Tensor x, weight, y;
};

// Captures, lets other convolutions run, and replays.
std::string beside_other_convolutions() {
  Program program;
  program.capture();
  if (program.replay() != "right") return "wrong before";
  other_convolutions();
  return program.replay();
}

}  // namespace

class ConvolutionPlanDropped : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
    unsetenv("TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT");
    const std::string outcome = outcome_of([] {
      int count = 0;
      const cudaError_t error = cudaGetDeviceCount(&count);
      if (error != cudaSuccess) return std::string(cudaGetErrorString(error));
      if (count == 0) return std::string("no GPU");
      return std::string(at::cudnn_is_acceptable(at::empty({1}, at::kCUDA)) ? "ok" : "this LibTorch has no cuDNN");
    });
    if (outcome != "ok") GTEST_SKIP() << outcome;
  }
};

TEST_F(ConvolutionPlanDropped, ControlEager) {
  EXPECT_EQ(outcome_of([] {
              limit_plans("1");
              const at::Tensor input = at::randn({2, 4, 4, 4}), weight = at::ones({4, 1, 3, 3});
              for (int i = 0; i < 3; ++i) {
                const at::Tensor y = transposed(input.to(kHalf), weight.to(kHalf));
                other_convolutions();
                if (!(distance(y, transposed(input, weight)) < 1e-2)) return "wrong values";
              }
              return "right";
            }),
            "right");
}

TEST_F(ConvolutionPlanDropped, Control) { EXPECT_EQ(outcome_of(beside_other_convolutions), "right"); }

TEST_F(ConvolutionPlanDropped, ControlPlanInUse) {
  EXPECT_EQ(outcome_of([] {
              limit_plans("1");
              Program program;
              program.capture();
              return program.replay();
            }),
            "right");
}

TEST_F(ConvolutionPlanDropped, Reproduces) {
  const std::string outcome = outcome_of([] {
    TRIGGER(limit_plans("1"));
    return beside_other_convolutions();
  });
  REPRODUCES(outcome, "signal 11", "right");
}

TEST_F(ConvolutionPlanDropped, FixLeaveTheLimitAlone) {
  EXPECT_EQ(outcome_of([] {
              WITHOUT_REMEDY(limit_plans("1"));
              return beside_other_convolutions();
            }),
            "right");
}

TEST_F(ConvolutionPlanDropped, FixNoLimit) {
  EXPECT_EQ(outcome_of([] {
              limit_plans("1");
              REMEDY(limit_plans("0"));
              return beside_other_convolutions();
            }),
            "right");
}

TEST_F(ConvolutionPlanDropped, FixLargeEnoughCache) {
  EXPECT_EQ(outcome_of([] {
              limit_plans("1");
              REMEDY(limit_plans("64"));
              return beside_other_convolutions();
            }),
            "right");
}

TEST_F(ConvolutionPlanDropped, FixCaptureAgain) {
  EXPECT_EQ(outcome_of([] {
              limit_plans("1");
              Program program;
              program.capture();
              other_convolutions();
              REMEDY(program.capture());
              return program.replay();
            }),
            "right");
}
