// A graph with an FFT crashes, or is silently wrong, once PyTorch drops the plan that it was captured with.
//
// PyTorch keeps cuFFT's plans in a cache for each device, 4096 by default. clear(), a smaller max_size and other
// transforms in a full cache destroy plans at once, and nothing there knows of graphs. Programs clear the cache, or
// make it small, to save memory. The captured kernels go on using what cuFFT had made for the plan. Where that was
// code, the next cudaGraphLaunch() ends inside the driver with signal 11, as it does for any captured kernel that was
// unloaded. Where it was a table in device memory, the replay computes with what the next owner has written there, or
// ends in an illegal access. Right after clear() many replays are still right: nothing has used the memory yet.
//
// The work area is not concerned: PyTorch allocates it, and in a capture it comes from the graph's pool. With
// max_size = 0 there is no cache, and each transform makes and destroys a plan of its own. That breaks the capture: a
// large prime size allocates memory for the plan, and another size unloads its kernels.
//
// No document describes it. Our stress test of operators found it, which does other work between two replays.
//
// Each program is a fork that uses CUDA by itself, so that a crash is a result and not the end of the test.
//
// Alone:  g++ cases/libraries/fft_plan_dropped.cpp $(tools/libtorch --flags) -o fft_plan_dropped

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graph with an FFT crashes or is silently wrong once PyTorch drops the FFT's plan from its cache",
    .sources = {{"upstream", "pytorch#94893"}},
    .documented = "not documented; found by trying: signal 11 in a replay, wrong values, or an illegal access",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"extensions"},
    .effect = Effect::Crashes,
    .effects = {{"ReproducesInverseOfReal", Effect::SilentlyWrong},
                {"ReproducesWithoutACache", Effect::Raises},
                {"ReproducesAPrimeSizeWithoutACache", Effect::Raises}},
    .fixes =
        {{"FixLeaveTheCacheAlone",
          "Do not clear torch.backends.cuda.cufft_plan_cache, or make it smaller, while a graph with an FFT is "
          "replayed."},
         {"FixLargeEnoughCache",
          "Set max_size, before the capture, to more plans than the program ever uses: other transforms then evict "
          "none."},
         {"FixCaptureAgain", "Capture again after the cache was cleared."}},
};

namespace {

constexpr int64_t kPowerOfTwo = 4096, kPrime = 5999;

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

using Transform = at::Tensor (*)(const at::Tensor&);

at::Tensor one_dimension(const at::Tensor& x) { return at::fft_fft(x); }
at::Tensor three_dimensions(const at::Tensor& x) { return at::fft_fftn(x); }
at::Tensor inverse_of_real(const at::Tensor& x) { return at::fft_irfft(x); }

// The largest difference, in units of the largest right value.
double distance(const at::Tensor& seen, const at::Tensor& right) {
  const at::Tensor difference = (seen.cpu() - right).abs().to(at::kDouble), scale = right.abs().to(at::kDouble);
  return difference.max().item<double>() / scale.max().item<double>();
}

// Transforms of other sizes, as eager code between two replays has them.
void other_transforms() {
  for (const int64_t size : {64, 100, 243, 777, 2048, 3000}) {
    at::fft_fft(at::ones({8, size}, at::device(at::kCUDA).dtype(at::kComplexFloat)));
    at::fft_rfft(at::ones({8, size}, at::device(at::kCUDA)));
  }
  at::cuda::getCurrentCUDAStream().synchronize();
}

// Gives the allocator's free memory back and takes it again, with other contents.
std::vector<at::Tensor> use_free_memory() {
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::vector<at::Tensor> blocks;
  for (const int64_t bytes : {int64_t{64} << 20, int64_t{1} << 20, int64_t{64} << 10, int64_t{512}}) {
    for (int i = 0; i < 24; ++i) blocks.push_back(at::full({bytes}, 0xC3, at::device(at::kCUDA).dtype(at::kByte)));
  }
  at::cuda::getCurrentCUDAStream().synchronize();
  return blocks;
}

// A captured transform of one input. Lives in a fork.
struct Program {
  explicit Program(at::IntArrayRef shape, Transform transform = one_dimension, at::ScalarType type = at::kComplexFloat)
      : transform(transform) {
    at::empty({1}, at::device(at::kCUDA));  // Initialises the allocator.
    c10::cuda::setCurrentCUDAStream(stream);
    x = at::zeros(shape, at::device(at::kCUDA).dtype(type));
  }
  void capture() {
    y = transform(x);  // Makes the plan outside the capture.
    stream.synchronize();
    graph = make_graph();
    graph->capture_begin();
    y = transform(x);
    graph->capture_end();
  }
  // "right", or "wrong values" if a replay's differ from the CPU's.
  std::string replay(int times) {
    for (int i = 0; i < times; ++i) {
      const at::Tensor input = at::randn(x.sizes(), x.options().device(at::kCPU));
      x.copy_(input);
      graph->replay();
      stream.synchronize();
      if (!(distance(y, transform(input)) < 1e-3)) return "wrong values";  // A NaN is wrong, too.
    }
    return "right";
  }

  Transform transform;
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  std::unique_ptr<Graph> graph;
  at::Tensor x, y;
};

// What three replays do after the plan cache was cleared and the free memory used.
std::string after_clear(const std::vector<int64_t>& shape, Transform transform,
                        at::ScalarType type = at::kComplexFloat) {
  return outcome_of([&] {
    Program& program = *new Program(shape, transform, type);  // After an illegal access its end would be signal 6.
    program.capture();
    if (program.replay(1) != "right") return std::string("wrong before");
    TRIGGER(at::_cufft_clear_plan_cache(0));
    new std::vector<at::Tensor>(use_free_memory());
    return program.replay(3);
  });
}

// A transform that ran before is captured while there is no cache.
std::string capture_without_cache(int64_t size) {
  return outcome_of([=] {
    Program program(at::IntArrayRef{size});
    at::fft_fft(program.x);
    program.stream.synchronize();
    TRIGGER(at::_cufft_set_plan_cache_max_size(0, 0));
    program.graph = make_graph();
    program.graph->capture_begin();
    const Failure first = failure_of([&] { at::fft_fft(program.x); });
    const std::string status = capture_status(program.stream);
    const Failure end = failure_of([&] { program.graph->capture_end(); });
    return seen(first, status, end);
  });
}

}  // namespace

class FftPlanDropped : public ::testing::Test {
 protected:
  // This process must not touch CUDA, or its forks could not use it.
  void SetUp() override {
    const std::string outcome = outcome_of([] {
      int count = 0;
      const cudaError_t error = cudaGetDeviceCount(&count);
      return error != cudaSuccess ? std::string(cudaGetErrorString(error)) : std::string(count == 0 ? "no GPU" : "ok");
    });
    if (outcome != "ok") GTEST_SKIP() << "no GPU: " << outcome;
  }
};

TEST_F(FftPlanDropped, ControlEager) {
  for (const int64_t size : {kPowerOfTwo, kPrime}) {
    EXPECT_EQ(
        outcome_of([&] {
          const at::Tensor input = at::randn({size}, at::dtype(at::kComplexFloat));
          at::fft_fft(input.to(at::kCUDA));
          at::_cufft_clear_plan_cache(0);
          const std::vector<at::Tensor> blocks = use_free_memory();
          return std::string(distance(at::fft_fft(input.to(at::kCUDA)), at::fft_fft(input)) < 1e-3 ? "right" : "wrong");
        }),
        "right");
  }
}

TEST_F(FftPlanDropped, Control) {
  for (const int64_t size : {kPowerOfTwo, kPrime}) {
    EXPECT_EQ(outcome_of([&] {
                Program program(at::IntArrayRef{size});
                program.capture();
                other_transforms();
                const std::vector<at::Tensor> blocks = use_free_memory();
                return program.replay(3);
              }),
              "right");
  }
}

TEST_F(FftPlanDropped, Reproduces) { REPRODUCES(after_clear({kPowerOfTwo}, one_dimension), "signal 11", "right"); }

TEST_F(FftPlanDropped, ReproducesWithAPrimeSize) {
  REPRODUCES(after_clear({kPrime}, one_dimension), "signal 11", "right");
}

TEST_F(FftPlanDropped, ReproducesInDoublePrecision) {
  REPRODUCES(after_clear({kPowerOfTwo}, one_dimension, at::kComplexDouble), "signal 11", "right");
}

TEST_F(FftPlanDropped, ReproducesInThreeDimensions) {
  REPRODUCES(after_clear({32, 32, 32}, three_dimensions), "signal 11", "right");
}

// From one process to the next it has wrong values, an illegal access or a crash.
TEST_F(FftPlanDropped, ReproducesInverseOfReal) {
  const std::string outcome = after_clear({kPowerOfTwo / 2 + 1}, inverse_of_real);
  const std::vector<std::string> kinds = {"wrong values", "signal 11",
                                          "CUDA error: an illegal memory access was encountered"};
  const bool is_one = std::find(kinds.begin(), kinds.end(), outcome) != kinds.end();
  record("outcome", outcome);
  REPRODUCES(is_one ? "one of three kinds" : outcome, "one of three kinds", "right");
}

TEST_F(FftPlanDropped, ReproducesByEviction) {
  const std::string outcome = outcome_of([] {
    Program program(at::IntArrayRef{kPowerOfTwo});
    program.capture();
    if (program.replay(1) != "right") return std::string("wrong before");
    TRIGGER(at::_cufft_set_plan_cache_max_size(0, 1));
    other_transforms();
    return program.replay(3);
  });
  REPRODUCES(outcome, "signal 11", "right");
}

TEST_F(FftPlanDropped, ReproducesWithoutACache) {
  RAISED_BY("cuModuleUnload");
  REPRODUCES(capture_without_cache(kPowerOfTwo), "ok > invalidated > 901", "ok > active > ok");
}

TEST_F(FftPlanDropped, ReproducesAPrimeSizeWithoutACache) {
  RAISED_BY("cuMemAlloc_v2");
  REPRODUCES(capture_without_cache(kPrime), "check \"cuFFT error: CUFFT_ALLOC_FAILED\" > invalidated > 901",
             "ok > active > ok");
}

TEST_F(FftPlanDropped, FixLeaveTheCacheAlone) {
  EXPECT_EQ(outcome_of([] {
              Program program(at::IntArrayRef{kPowerOfTwo});
              program.capture();
              WITHOUT_REMEDY(at::_cufft_clear_plan_cache(0));
              other_transforms();
              const std::vector<at::Tensor> blocks = use_free_memory();
              return program.replay(3);
            }),
            "right");
}

TEST_F(FftPlanDropped, FixLargeEnoughCache) {
  EXPECT_EQ(outcome_of([] {
              at::_cufft_set_plan_cache_max_size(0, 2);
              REMEDY(at::_cufft_set_plan_cache_max_size(0, 64));
              Program program(at::IntArrayRef{kPowerOfTwo});
              program.capture();
              other_transforms();
              const std::vector<at::Tensor> blocks = use_free_memory();
              return program.replay(3);
            }),
            "right");
}

TEST_F(FftPlanDropped, FixCaptureAgain) {
  EXPECT_EQ(outcome_of([] {
              Program program(at::IntArrayRef{kPowerOfTwo});
              program.capture();
              at::_cufft_clear_plan_cache(0);
              other_transforms();
              REMEDY(program.capture());
              const std::vector<at::Tensor> blocks = use_free_memory();
              return program.replay(3);
            }),
            "right");
}
