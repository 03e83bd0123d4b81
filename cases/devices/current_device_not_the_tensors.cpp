// A capture records only work on the device that was current when it began.
//
// An operator runs on the device of its tensors, on the stream that is current there. If that is not the capture's
// device, in-place work runs at once and is missing from every replay; the graph is empty, with a warning. Work that
// allocates memory calls cudaMalloc() as if there were no capture, which invalidates the capture. On one GPU,
// nothing_captured shows the same with another stream.
//
// Alone:  g++ cases/devices/current_device_not_the_tensors.cpp $(tools/libtorch --flags) -o current_device_not_the_tensors

#include <cmath>
#include <string>

#include "fixtures/torch/gpu.h"
#include "fixtures/torch/warnings.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture on another device than the tensors' records nothing, or fails at the first allocation",
    .sources = {{"upstream", "pytorch#87894"}, {"upstream", "pytorch#87794"}, {"upstream", "pytorch#88754"}},
    .documented =
        "One would expect it to print different values each iteration, but it does not: The CUDA Graph is empty; "
        "or operation not permitted when stream is capturing (2 GPUs)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams"},
    .needs = "ranks",
    .effect = Effect::SilentlyWrong,
    .effects = {{"ReproducesAllocation", Effect::Raises}},
    .fixes = {{"FixEnterTheDevice",
               "Enter `with torch.cuda.device(tensor.device):` around stream, warm-up, capture and replay."}},
    .connections = 8,
};

class CurrentDeviceNotTheTensors : public GpuTest {
 protected:
  static constexpr int64_t kLarge = 16 << 20;  // Elements: no cached block has room for them.

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    if (count < 2) GTEST_SKIP() << "needs 2 GPUs, has " << count;
    for (const c10::DeviceIndex device : {0, 1}) {
      const c10::cuda::CUDAGuard guard(device);
      at::full({4}, 1, at::kCUDA).add_(0);  // Loads the kernel.
      ASSERT_CUDA(cudaDeviceSynchronize());
    }
    x = at::full({4}, 1, at::Device(at::kCUDA, 1));
    large = at::full({kLarge}, 1, at::Device(at::kCUDA, 1));
    synchronize();
  }

  static void synchronize() {
    for (const c10::DeviceIndex device : {0, 1}) {
      const c10::cuda::CUDAGuard guard(device);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }

  // What two replays make of a 5 and a 7, once all is done that was launched before.
  std::string replays() {
    std::string seen;
    for (const int value : {5, 7}) {
      synchronize();
      x.fill_(value);
      synchronize();
      graph->replay();
      synchronize();
      seen += (seen.empty() ? "" : ", ") + std::to_string(std::lround(values(x)[0]));
    }
    return seen;
  }

  // A capture of x + 1 in place, begun while `current` is the current device.
  std::string add_in_place(c10::DeviceIndex current) {
    const Warnings warnings;
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, current));
    graph->capture_begin();
    const Failure work = failure_of([&] { x.add_(1); });
    const Failure end = failure_of([&] { graph->capture_end(); });
    return work.text + " > " + end.text + " > " + warnings.first_with("The CUDA Graph is empty") + " > " + replays();
  }

  // A capture whose work needs new memory on the tensors' device.
  std::string allocate(c10::DeviceIndex current) {
    const c10::cuda::CUDAStream on = c10::cuda::getStreamFromPool(false, current);
    const c10::cuda::CUDAStreamGuard guard(on);
    graph->capture_begin();
    const Failure first = failure_of([&] { out = large + 1; });
    const std::string status = capture_status(on);
    const Failure end = failure_of([&] { graph->capture_end(); });
    return seen(first, status, end);
  }

  at::Tensor x, large, out;
};

constexpr char kInPlace[] = "ok > ok > no warning > 6, 8";

TEST_F(CurrentDeviceNotTheTensors, Control) { EXPECT_EQ(add_in_place(1), kInPlace); }

TEST_F(CurrentDeviceNotTheTensors, ControlAllocation) {
  EXPECT_EQ(allocate(1), "ok > active > ok");
  for (const int value : {5, 7}) {
    large.fill_(value);
    synchronize();
    graph->replay();
    synchronize();
    EXPECT_EQ(values(out.slice(0, kLarge - 1)), std::vector<double>{value + 1.0});
  }
}

TEST_F(CurrentDeviceNotTheTensors, Reproduces) {
  c10::DeviceIndex current = 1;
  TRIGGER(current = 0);
  REPRODUCES(add_in_place(current), "ok > ok > The CUDA Graph is empty.* > 5, 7", kInPlace);
}

TEST_F(CurrentDeviceNotTheTensors, ReproducesAllocation) {
  c10::DeviceIndex current = 1;
  TRIGGER(current = 0);
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(allocate(current), "900 > invalidated > 901", "ok > active > ok");
}

TEST_F(CurrentDeviceNotTheTensors, FixEnterTheDevice) {
  c10::DeviceIndex current = 0;
  REMEDY(current = x.get_device());
  EXPECT_EQ(add_in_place(current), kInPlace);
}
