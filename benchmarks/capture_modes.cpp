// The cost of thread-local and relaxed instead of global mode, for a capture and for replays of its graph.
#include "benchmarks/work.h"

namespace recapture {
namespace {

Work capture(cudaStreamCaptureMode mode) {
  return [=, x = small_tensor()] { captured([&] { launch(x, kSmallGraph); }, mode); };
}

Work replay(cudaStreamCaptureMode mode) {
  const at::Tensor x = small_tensor();
  const auto graph = captured([&] { launch(x, kSmallGraph); }, mode);
  return [=] {
    (void)x;  // The graph's memory.
    graph->replay();
  };
}

void prices_of(std::initializer_list<const char*> fixes, cudaStreamCaptureMode mode) {
  constexpr auto kGlobal = cudaStreamCaptureModeGlobal;
  price(
      fixes, ("a capture of " + counted(kSmallGraph, "kernel")).c_str(), Clock::Host, [] { return capture(kGlobal); },
      [=] { return capture(mode); });
  price(
      fixes, ("a replay of " + counted(kSmallGraph, "kernel")).c_str(), Clock::Gpu, [] { return replay(kGlobal); },
      [=] { return replay(mode); });
}

const Registered kAll([] {
  prices_of(
      {"allocation_in_other_thread.FixThreadLocalMode", "data_loader_beside_python_capture.FixThreadLocalMode",
       "data_loader_remedies.FixThreadLocalMode", "event_query_in_other_thread.FixThreadLocalMode",
       "nccl_watchdog_in_capture.FixThreadLocalMode", "pin_memory_loop_beside_capture.FixThreadLocalMode",
       "pinned_allocation_in_other_thread.FixThreadLocalMode", "pinned_background_thread_in_capture.FixThreadLocalMode",
       "raw_free_in_other_thread.FixThreadLocalMode", "worker_pins_beside_python_capture.FixThreadLocalMode",
       "worker_queries_beside_python_capture.FixThreadLocalMode"},
      cudaStreamCaptureModeThreadLocal);
  prices_of({"allocation_in_other_thread.FixRelaxedMode", "event_query_in_capture.FixRelaxedMode",
             "event_query_in_other_thread.FixRelaxedMode", "pinned_allocation_in_capture.FixRelaxedMode",
             "pinned_allocation_in_other_thread.FixRelaxedMode", "pinned_event_query_in_capture.FixRelaxedMode",
             "pinned_memory_in_python_capture.FixRelaxedMode", "pinned_release_in_capture.FixRelaxedMode",
             "raw_free_in_other_thread.FixRelaxedMode", "stream_query_in_capture.FixRelaxedModeForOtherStream"},
            cudaStreamCaptureModeRelaxed);
});

}  // namespace
}  // namespace recapture
