// The two clocks, and the facts about the machine.
#include <ATen/Version.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "benchmarks/remedy.h"
#include "fixtures/torch/libtorch.h"

namespace recapture {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

bool has_gpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

struct Event {
  Event() { check(cudaEventCreate(&event)); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t event = nullptr;
};

}  // namespace

void use_side_stream() {
  if (has_gpu()) c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
}

void give_memory_back() {
  if (has_gpu()) c10::cuda::CUDACachingAllocator::emptyCache();
}

double microseconds(Clock clock, const Work& work, int times) {
  if (clock == Clock::Host) {
    const auto rest = [] {
      if (has_gpu()) check(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
    };
    rest();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) work();
    rest();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  const Event start, end;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  check(cudaStreamSynchronize(stream));
  check(cudaEventRecord(start.event, stream));
  for (int i = 0; i < times; ++i) work();
  check(cudaEventRecord(end.event, stream));
  check(cudaEventSynchronize(end.event));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.event, end.event));
  return 1e3 * static_cast<double>(milliseconds);
}

Machine machine() {
  static cudaDeviceProp properties;
  static char runtime[16] = "";
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) {
    snprintf(runtime, sizeof runtime, "%d.%d", version / 1000, version % 1000 / 10);
  }
  const bool is_there = has_gpu() && cudaGetDeviceProperties(&properties, 0) == cudaSuccess;
  // From LibTorch's own configuration: the headers may be of another release.
  static const std::string config = at::show_config(), key = "TORCH_VERSION=";
  const size_t at = config.find(key), from = at + key.size();
  static const std::string libtorch =
      at == std::string::npos ? "" : config.substr(from, config.find_first_of(", \n", from) - from);
  return {libtorch.c_str(), is_there ? properties.name : "", runtime};
}

}  // namespace recapture
