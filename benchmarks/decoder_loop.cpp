// A small greedy decoder, eager against graph: the load-corruption report says that one file was transcribed about 15 %
// faster with CUDA graphs disabled.
//
// The decoder is of the reported model's kind and not that model: an LSTM cell of 640, a joint layer over 1,025
// symbols, and a loop on the host that reads the best symbol after every step. eager launches each kernel; replay has
// one step captured and replays it for each symbol; capture_and_replay also makes the graph, as it happens for the
// first file of a process, or for one of a new shape. range(0) is the number of symbols.
#include <benchmark/benchmark.h>

#include "fixtures/torch/libtorch.h"

using namespace recapture;

namespace {

constexpr int64_t kHidden = 640, kSymbols = 1025;

struct Decoder {
  at::Tensor embedding = at::randn({kSymbols, kHidden}, at::kCUDA);
  at::Tensor input_weight = at::randn({4 * kHidden, kHidden}, at::kCUDA) * 0.02;
  at::Tensor hidden_weight = at::randn({4 * kHidden, kHidden}, at::kCUDA) * 0.02;
  at::Tensor joint_weight = at::randn({kSymbols, kHidden}, at::kCUDA);
  at::Tensor symbol = at::zeros({1}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  at::Tensor hidden = at::zeros({1, kHidden}, at::kCUDA), cell = at::zeros({1, kHidden}, at::kCUDA);

  void start() {
    symbol.zero_();
    hidden.zero_();
    cell.zero_();
  }
  void step() {
    const at::Tensor gates =
        at::mm(embedding.index_select(0, symbol), input_weight.t()) + at::mm(hidden, hidden_weight.t());
    const auto parts = gates.chunk(4, 1);
    cell.copy_(at::sigmoid(parts[1]) * cell + at::sigmoid(parts[0]) * at::tanh(parts[2]));
    hidden.copy_(at::sigmoid(parts[3]) * at::tanh(cell));
    symbol.copy_(at::mm(hidden, joint_weight.t()).argmax(1));
  }
  std::unique_ptr<Graph> captured() {
    auto graph = make_graph();
    graph->capture_begin();
    step();
    graph->capture_end();
    return graph;
  }
};

enum class How { Eager, Replay, CaptureAndReplay };

void decode(benchmark::State& state, How how) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return state.SkipWithError("no GPU");
  const c10::InferenceMode no_autograd;
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  at::manual_seed(1234);
  Decoder decoder;
  decoder.step();  // cuBLAS makes its workspace.
  std::unique_ptr<Graph> graph = how == How::Replay ? decoder.captured() : nullptr;
  int64_t sum = 0, expected = -1;
  for (auto _ : state) {
    sum = 0;
    decoder.start();
    if (how == How::CaptureAndReplay) graph = decoder.captured();
    for (int64_t i = 0; i < state.range(0); ++i) {
      how == How::Eager ? decoder.step() : graph->replay();
      sum += decoder.symbol.item<int64_t>();
    }
    if (expected < 0) expected = sum;
    if (sum != expected) return state.SkipWithError("two loops gave different symbols");
  }
  state.counters["sum_of_symbols"] =
      static_cast<double>(sum);  // The same in all three, or they differ in more than time.
}

}  // namespace

#define DECODE(name, how) \
  BENCHMARK_CAPTURE(decode, name, how)->Arg(10)->Arg(100)->Arg(1000)->UseRealTime()->Unit(benchmark::kMicrosecond)
DECODE(eager, How::Eager);
DECODE(replay, How::Replay);
DECODE(capture_and_replay, How::CaptureAndReplay);

BENCHMARK_MAIN();
