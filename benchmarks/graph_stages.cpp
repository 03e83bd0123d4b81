// The duration of each stage of a graph's life, by its number of nodes: a capture, an instantiation, the first replay
// and a later one.
//
// The nodes are LibTorch's own small kernels, one after the other. A capture is LibTorch's, from capture_begin() to
// capture_end(), which includes the instantiation; the instantiation is also measured alone, on a graph captured by
// CUDA's own calls with LibTorch's flag. A replay is measured from the call until its last kernel is done. Everything
// is warm: the kernels have run, and a graph of the same size was captured and replayed before.
#include <stdexcept>

#include "benchmarks/work.h"

namespace recapture {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class RawGraph {
 public:
  RawGraph(const at::Tensor& x, int nodes) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(x, nodes);
    check(cudaStreamEndCapture(stream, &graph_));
  }
  ~RawGraph() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  RawGraph(const RawGraph&) = delete;
  RawGraph& operator=(const RawGraph&) = delete;
  void instantiate() { check(cudaGraphInstantiateWithFlags(&exec_, graph_, cudaGraphInstantiateFlagAutoFreeOnLaunch)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// `x` with its kernel loaded, after a graph of the same size has passed all stages.
at::Tensor warm(int nodes) {
  const at::Tensor x = small_tensor();
  launch(x, 1);
  const auto graph = captured([&] { launch(x, nodes); });
  graph->replay();
  return x;
}

double once(const Work& work) { return microseconds(Clock::Host, work, 1); }

const Registered kAll([] {
  for (const int nodes : {10, 100, 1000, 10'000}) {
    stage("capture", nodes, [=] {
      const at::Tensor x = warm(nodes);
      std::shared_ptr<Graph> graph;  // Destroyed after the clock has stopped.
      return once([&] { graph = captured([&] { launch(x, nodes); }); });
    });
    stage("instantiation", nodes, [=] {
      const at::Tensor x = warm(nodes);
      RawGraph graph(x, nodes);
      return once([&] { graph.instantiate(); });
    });
    stage("first replay", nodes, [=] {
      const at::Tensor x = warm(nodes);
      const auto graph = captured([&] { launch(x, nodes); });
      return once([&] { graph->replay(); });
    });
    stage("later replay", nodes, [=] {
      const at::Tensor x = warm(nodes);
      const auto graph = captured([&] { launch(x, nodes); });
      for (int i = 0; i < 3; ++i) graph->replay();
      return once([&] { graph->replay(); });
    });
  }
});

}  // namespace
}  // namespace recapture
