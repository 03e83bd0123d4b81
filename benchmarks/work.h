// Shared by several benchmarks: small kernels, and capturing them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "benchmarks/remedy.h"
#include "fixtures/torch/libtorch.h"

namespace recapture {

constexpr int kSmallGraph = 20;  // Kernels.

inline at::Tensor small_tensor() { return at::zeros({1024}, at::kCUDA); }

// `kernels` kernels of a microsecond or two, one after the other.
inline void launch(at::Tensor x, int64_t kernels) {
  for (int64_t i = 0; i < kernels; ++i) x.add_(1);
}

// `work` as a graph. A Work is a std::function and so must be copyable; a graph is not.
template <class F>
std::shared_ptr<Graph> captured(F&& work, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  std::shared_ptr<Graph> graph = make_graph();
  graph->capture_begin({0, 0}, mode);
  std::forward<F>(work)();
  graph->capture_end();
  return graph;
}

// Replays of `work`; `kept` holds what the graph reads and writes.
template <class F, class... Kept>
Work replays(F&& work, Kept... kept) {
  auto graph = captured(std::forward<F>(work));
  return [graph, kept...] { graph->replay(); };
}

inline std::string counted(int64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

// Registers prices as the program starts.
struct Registered {
  explicit Registered(void (*all)()) { all(); }
};

}  // namespace recapture
