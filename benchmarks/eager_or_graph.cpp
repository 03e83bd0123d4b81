// The cost of disabling a graph, by its number of kernels.
#include "benchmarks/work.h"

namespace recapture {
namespace {

Work kernels(int64_t count, bool eager) {
  const at::Tensor x = small_tensor();
  if (eager) return [=] { launch(x, count); };
  return replays([&] { launch(x, count); }, x);
}

const Registered kAll([] {
  for (const int64_t count : {1, 10, 100, 1000}) {
    price(
        {"kernel_compiled_for_capture.FixNoGraphs"},
        (counted(count, "small kernel") + ", launched in place of replayed").c_str(), Clock::Gpu,
        [=] { return kernels(count, false); }, [=] { return kernels(count, true); });
  }
});

}  // namespace
}  // namespace recapture
