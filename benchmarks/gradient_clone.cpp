// What the remedy for gradient aliasing costs: a clone of every parameter's gradient after the replay that made it.
//
// replay: a captured graph writes the gradients of so many parameters of so many bytes each, one kernel a parameter.
// replay_and_clone: the same, and then each gradient is cloned, as the remedy does. The difference is the remedy's
// price; a real backward pass computes more, so that its share there is smaller. Both end when the GPU has finished.
#include <benchmark/benchmark.h>

#include <vector>

#include "fixtures/torch/libtorch.h"

using namespace recapture;

namespace {

void replay(benchmark::State& state, bool clone) {
  const int64_t parameters = state.range(0), bytes = state.range(1);
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return state.SkipWithError("no GPU");
  if (static_cast<double>(free) < 2.2 * static_cast<double>(parameters) * static_cast<double>(bytes)) {
    return state.SkipWithError("the gradients and their clones do not fit into the GPU's memory");
  }
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  std::vector<at::Tensor> gradients(parameters);
  for (at::Tensor& gradient : gradients) gradient = at::zeros({bytes / 4}, at::kCUDA);
  stream.synchronize();
  auto graph = make_graph();
  graph->capture_begin();
  for (at::Tensor& gradient : gradients) gradient.fill_(1);
  graph->capture_end();
  std::vector<at::Tensor> copies(parameters);
  const auto once = [&] {
    graph->replay();
    if (clone) {
      for (int64_t i = 0; i < parameters; ++i) copies[i] = gradients[i].clone();
    }
    stream.synchronize();
  };
  once();  // The allocator's cache then has what the clones take.
  for (auto _ : state) once();
  state.SetItemsProcessed(state.iterations() * parameters);
  gradients.clear();
  copies.clear();
  graph.reset();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t parameters : {1, 100, 1000}) {
    for (int64_t bytes : {4 << 10, 64 << 10, 1 << 20, 64 << 20}) benchmark->Args({parameters, bytes});
  }
  benchmark->ArgNames({"parameters", "bytes"})->UseRealTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace

BENCHMARK_CAPTURE(replay, alone, false)->Apply(sizes);
BENCHMARK_CAPTURE(replay, and_clone, true)->Apply(sizes);

BENCHMARK_MAIN();
