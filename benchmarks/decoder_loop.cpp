// A small greedy decoder, eager against graph: according to the load-corruption report one file was transcribed about
// 15 % faster with CUDA graphs disabled.
//
// The decoder is similar to the reported model: an LSTM cell of 640, a joint layer over 1,025 symbols, and a host loop
// that reads the best symbol after every step. With graphs, one step is captured and replayed for each symbol; the
// first file of a process, or one of a new shape, also needs the capture.
#include <stdexcept>

#include "benchmarks/work.h"

namespace recapture {
namespace {

constexpr int64_t kHidden = 640, kSymbols = 1025;

struct Decoder {
  at::Tensor embedding = at::randn({kSymbols, kHidden}, at::kCUDA);
  at::Tensor input_weight = at::randn({4 * kHidden, kHidden}, at::kCUDA) * 0.02;
  at::Tensor hidden_weight = at::randn({4 * kHidden, kHidden}, at::kCUDA) * 0.02;
  at::Tensor joint_weight = at::randn({kSymbols, kHidden}, at::kCUDA);
  at::Tensor symbol = at::zeros({1}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  at::Tensor hidden = at::zeros({1, kHidden}, at::kCUDA), cell = at::zeros({1, kHidden}, at::kCUDA);
  std::shared_ptr<Graph> graph;
  int64_t expected = -1;  // The sum of the first loop's symbols.

  void step() {
    const at::Tensor gates =
        at::mm(embedding.index_select(0, symbol), input_weight.t()) + at::mm(hidden, hidden_weight.t());
    const auto parts = gates.chunk(4, 1);
    cell.copy_(at::sigmoid(parts[1]) * cell + at::sigmoid(parts[0]) * at::tanh(parts[2]));
    hidden.copy_(at::sigmoid(parts[3]) * at::tanh(cell));
    symbol.copy_(at::mm(hidden, joint_weight.t()).argmax(1));
  }
  void capture() {
    graph = captured([&] { step(); });
  }
  void decode(int symbols) {
    for (at::Tensor* state : {&symbol, &hidden, &cell}) state->zero_();
    int64_t sum = 0;
    for (int i = 0; i < symbols; ++i) {
      graph ? graph->replay() : step();
      sum += symbol.item<int64_t>();
    }
    if (expected < 0) expected = sum;
    if (sum != expected) throw std::runtime_error("two loops gave different symbols");
  }
};

enum class How { Eager, Replay, CaptureAndReplay };

Work decode(int symbols, How how) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(1234);
  const auto decoder = std::make_shared<Decoder>();
  decoder->step();  // cuBLAS allocates its workspace.
  if (how == How::Replay) decoder->capture();
  return [=] {
    const c10::InferenceMode also_without;
    if (how == How::CaptureAndReplay) decoder->capture();
    decoder->decode(symbols);
  };
}

const Registered kAll([] {
  for (const int symbols : {10, 100}) {
    price(
        {"kernel_compiled_for_capture.FixNoGraphs"},
        ("a small decoder's " + std::to_string(symbols) + " symbols, launched in place of replayed").c_str(),
        Clock::Gpu, [=] { return decode(symbols, How::Replay); }, [=] { return decode(symbols, How::Eager); });
    price(
        {"kernel_compiled_for_capture.FixNoGraphs"},
        ("a small decoder's " + std::to_string(symbols) + " symbols, launched in place of captured and replayed")
            .c_str(),
        Clock::Gpu, [=] { return decode(symbols, How::CaptureAndReplay); },
        [=] { return decode(symbols, How::Eager); });
  }
});

}  // namespace
}  // namespace recapture
