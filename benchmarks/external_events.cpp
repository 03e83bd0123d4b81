// External events, between two graphs and between a graph and earlier work. The alternatives: one stream for both
// graphs, and a wait before each replay.
#include <stdexcept>

#include "benchmarks/work.h"

namespace recapture {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

// Two streams, and an event for each direction.
struct Streams {
  Streams() {
    for (cudaEvent_t* event : {&there, &back}) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  ~Streams() {
    for (const cudaEvent_t event : {there, back}) cudaEventDestroy(event);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(), side = c10::cuda::getStreamFromPool();
  cudaEvent_t there = nullptr, back = nullptr;
};

Work two_graphs(bool external) {
  const auto s = std::make_shared<Streams>();
  const at::Tensor x = small_tensor();
  const auto first = captured([&] {
    launch(x, kSmallGraph);
    if (external) check(cudaEventRecordWithFlags(s->there, s->stream, cudaEventRecordExternal));
  });
  std::shared_ptr<Graph> second;
  {
    const c10::cuda::CUDAStreamGuard guard(external ? s->side : s->stream);
    second = captured([&] {
      if (external) check(cudaStreamWaitEvent(s->side, s->there, cudaEventWaitExternal));
      launch(x, kSmallGraph);
    });
  }
  return [=] {
    (void)x;  // The graphs' memory.
    first->replay();
    const c10::cuda::CUDAStreamGuard guard(external ? s->side : s->stream);
    second->replay();
    if (!external) return;
    check(cudaEventRecord(s->back, s->side));
    check(cudaStreamWaitEvent(s->stream, s->back));
  };
}

Work after_earlier_work(bool external) {
  const auto s = std::make_shared<Streams>();
  const at::Tensor x = small_tensor(), earlier = small_tensor();
  const auto graph = captured([&] {
    if (external) check(cudaStreamWaitEvent(s->stream, s->there, cudaEventWaitExternal));
    launch(x, kSmallGraph);
  });
  return [=] {
    {
      const c10::cuda::CUDAStreamGuard guard(s->side);
      launch(earlier, 1);
    }
    check(cudaEventRecord(s->there, s->side));
    if (!external) check(cudaStreamWaitEvent(s->stream, s->there));
    graph->replay();
    (void)x;  // The graph's memory.
  };
}

const Registered kAll([] {
  price(
      {"event_between_two_graphs.FixExternalEventOfCuda", "event_between_two_graphs.FixExternalEventOfLibTorch"},
      "two graphs of 20 kernels, one after the other, on two streams in place of one", Clock::Gpu,
      [] { return two_graphs(false); }, [] { return two_graphs(true); });
  price(
      {"capture_waits_for_earlier_work.FixExternalEventOfCuda",
       "capture_waits_for_earlier_work.FixExternalEventOfLibTorch"},
      "a graph of 20 kernels that waits for another stream, in the graph in place of before it", Clock::Gpu,
      [] { return after_earlier_work(false); }, [] { return after_earlier_work(true); });
});

}  // namespace
}  // namespace recapture
