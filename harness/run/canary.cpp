// Does the GPU answer? Names the machine and runs one small kernel whose result is checked, through the driver alone:
// no CUDA runtime, no LibTorch, nothing to link. Prints one JSON object. Exit code: 0 it answers, 1 it does not, 77 no
// GPU.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/case/source_hash.h"

namespace {

using Json = nlohmann::ordered_json;
using Handle = void*;
constexpr int kOk = 0;
constexpr uint32_t kValue = 20260;

// Stores its second parameter at its first. PTX: the driver compiles it for whatever GPU is there.
constexpr const char* kKernel = R"(.version 6.3
.target sm_75
.address_size 64
.visible .entry store(.param .u64 where, .param .u32 what) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where];
  ld.param.u32 %r1, [what];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

Handle library = nullptr;

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  using Function = int (*)(Arguments...);
  auto function = reinterpret_cast<Function>(dlsym(library, name));
  return function == nullptr ? -1 : function(arguments...);
}

int report(int exit_code, Json facts, const std::string& canary, const std::string& reason) {
  facts["canary"] = canary;
  if (!reason.empty()) facts["reason"] = reason;
  std::printf("%s\n", facts.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  return exit_code;
}

// The driver's version as its packages spell it; only NVML knows it.
std::string driver_version() {
  Handle nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return "";
  std::array<char, 96> version{};
  auto initialise = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
  auto ask = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(nvml, "nvmlSystemGetDriverVersion"));
  const bool known = initialise != nullptr && ask != nullptr && initialise() == kOk &&
                     ask(version.data(), static_cast<unsigned>(version.size())) == kOk;
  return known ? version.data() : "";
}

// "" if the kernel ran and stored what it should, else what went wrong.
std::string run_kernel(int device) {
  Handle context = nullptr, module = nullptr, kernel = nullptr;
  uint64_t memory = 0;
  uint32_t result = 0, value = kValue;
  std::array<void*, 2> parameters{&memory, &value};
  const auto failed = [](const char* name, int error) { return std::string(name) + " " + std::to_string(error); };
  int error = call("cuDevicePrimaryCtxRetain", &context, device);
  if (error != kOk) return failed("cuDevicePrimaryCtxRetain", error);
  error = call("cuCtxSetCurrent", context);
  if (error == kOk) error = call("cuModuleLoadData", &module, static_cast<const void*>(kKernel));
  if (error != kOk) return failed("cuModuleLoadData", error);
  error = call("cuModuleGetFunction", &kernel, module, "store");
  if (error == kOk) error = call("cuMemAlloc_v2", &memory, sizeof result);
  if (error != kOk) return failed("cuMemAlloc", error);
  error = call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{}, parameters.data(),
               static_cast<void**>(nullptr));
  if (error != kOk) return failed("cuLaunchKernel", error);
  error = call("cuMemcpyDtoH_v2", static_cast<void*>(&result), memory, sizeof result);
  if (error != kOk) return failed("cuMemcpyDtoH", error);
  return result == kValue ? "" : "the kernel stored " + std::to_string(result);
}

}  // namespace

int main() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return report(77, {{"gpus", 0}}, "none", "no libcuda.so.1: no NVIDIA driver is installed");
  int error = call("cuInit", 0U), count = 0, device = 0, version = 0;
  if (error == kOk) error = call("cuDeviceGetCount", &count);
  if (error != kOk || count == 0) {
    return report(77, {{"gpus", 0}}, "none", "the driver has no GPU: cuInit says " + std::to_string(error));
  }
  std::array<char, 256> name{};
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device);
  call("cuDriverGetVersion", &version);
  constexpr int kMajor = 75, kMinor = 76;  // Attributes of a device: its compute capability.
  int major = 0, minor = 0;
  call("cuDeviceGetAttribute", &major, kMajor, device);
  call("cuDeviceGetAttribute", &minor, kMinor, device);
  std::array<char, 16> uuid{};
  call("cuDeviceGetUuid_v2", uuid.data(), device);
  const Json facts = {{"gpus", count},
                      {"gpu", name.data()},
                      {"gpu_id", recapture::hash_of({uuid.data(), uuid.size()})},
                      {"compute_capability", std::to_string(major) + "." + std::to_string(minor)},
                      {"driver", driver_version()},
                      {"cuda_driver", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)}};
  const std::string wrong = run_kernel(device);
  return wrong.empty() ? report(0, facts, "ok", "") : report(1, facts, wrong, "");
}
