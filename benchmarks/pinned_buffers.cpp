// One pinned buffer, allocated before the capture, instead of one for each batch.
//
// A reused buffer may be written only after its last copy, so each batch waits for it; LibTorch's allocator does the
// same for a block that it reuses.
#include <cstring>

#include "benchmarks/work.h"

namespace recapture {
namespace {

at::Tensor pinned(int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
}

Work copy(int64_t bytes, bool allocated_before) {
  const at::Tensor batch = at::ones({bytes}, at::kByte),
                   input = at::empty({bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte)),
                   kept = allocated_before ? pinned(bytes) : at::Tensor();
  const auto copied = std::make_shared<at::cuda::CUDAEvent>();
  return [=] {
    if (kept.defined()) copied->synchronize();
    const at::Tensor buffer = kept.defined() ? kept : pinned(bytes);
    std::memcpy(buffer.data_ptr(), batch.data_ptr(), bytes);
    input.copy_(buffer, /*non_blocking=*/true);
    if (kept.defined()) copied->record();
  };
}

const Registered kAll([] {
  for (const int64_t kib : {64, 16 << 10}) {
    const std::string size = kib < 1024 ? std::to_string(kib) + " KiB" : std::to_string(kib / 1024) + " MiB";
    price(
        {"pinned_allocation_in_capture.FixAllocateBefore", "pinned_event_query_in_capture.FixAllocateBefore",
         "pinned_memory_in_python_capture.FixAllocateBefore"},
        ("a batch of " + size + " copied to the GPU through pinned memory").c_str(), Clock::Gpu,
        [=] { return copy(kib << 10, false); }, [=] { return copy(kib << 10, true); });
  }
});

}  // namespace
}  // namespace recapture
