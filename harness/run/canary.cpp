// Checks the GPUs: names the machine and runs a small kernel with a checked result on each visible GPU, through the
// driver alone: no CUDA runtime, no LibTorch, nothing to link. Prints one JSON object, with each GPU that does not
// work. Exit code: 0 all work, 1 one does not, 77 no GPU. With --context it only creates a context on the first GPU.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/case/cuda_errors.h"
#include "harness/case/source_hash.h"

namespace {

using Json = nlohmann::ordered_json;
using Handle = void*;
constexpr int kOk = 0;
constexpr uint32_t kValue = 20260;

// Stores its second parameter at its first. PTX: the driver compiles it for the GPU. After ".target sm_" comes the
// architecture: a driver loads none that is newer than the GPU, and this version of PTX knows none after 7.5.
constexpr const char* kVersion = ".version 6.3\n.target sm_";
constexpr const char* kKernel = R"(
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
int call_in(Handle where, const char* name, Arguments... arguments) {
  using Function = int (*)(Arguments...);
  auto function = reinterpret_cast<Function>(dlsym(where, name));
  return function == nullptr ? -1 : function(arguments...);
}

// Functions of the CUDA driver.
template <class... Arguments>
int call(const char* name, Arguments... arguments) {
  return call_in(library, name, arguments...);
}

// What to do about an error that a machine's setup causes.
std::string advice_for(int error) {
  switch (error) {
    case 802:
      return "; with NVSwitch, is nvidia-fabricmanager running, and of the driver's version?";
    case 803:
      return "; libcuda.so.1 and the driver's kernel module are of different versions";
    case 804:
      return "; a libcuda.so.1 of cuda-compat comes first, and this GPU does not take it";
    case 999:
      return "; is the module nvidia_uvm loaded?";
    default:
      return "";
  }
}

// "cuInit 802: system not yet initialized"
std::string failed(const char* name, int error) {
  const recapture::CudaError* known = recapture::find_cuda_error(error);
  return std::string(name) + " " + std::to_string(error) + (known == nullptr ? "" : ": " + std::string(known->text)) +
         advice_for(error);
}

int report(int exit_code, Json facts, const std::string& canary, const std::string& reason) {
  facts["canary"] = canary;
  if (!reason.empty()) facts["reason"] = reason;
  std::printf("%s\n", facts.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  return exit_code;
}

// Facts that only NVML has: the driver's version as its packages spell it, MIG, and other processes on the GPU.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)), answers_(ask("nvmlInit_v2") == kOk) {}

  bool answers() const { return answers_; }
  std::string driver_version() {
    std::array<char, 96> version{};
    const bool known =
        answers_ && ask("nvmlSystemGetDriverVersion", version.data(), static_cast<unsigned>(version.size())) == kOk;
    return known ? version.data() : "";
  }
  // "on" or "off"; "" if unknown.
  std::string mig(Handle device) {
    constexpr int kNotSupported = 3;
    unsigned current = 0, pending = 0;
    const int error = ask("nvmlDeviceGetMigMode", device, &current, &pending);
    return error == kOk ? (current == 1 ? "on" : "off") : error == kNotSupported ? "off" : "";
  }
  // How many processes compute on it. Call it before creating our own context.
  unsigned processes(Handle device) {
    constexpr int kMore = 7;  // NVML_ERROR_INSUFFICIENT_SIZE: we pass no buffer.
    unsigned count = 0;
    const int error = ask("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, Handle{});
    return error == kOk || error == kMore ? count : 0;
  }
  Handle device(int cuda_device) {
    std::array<char, 32> bus{};
    Handle found = nullptr;
    const bool known =
        answers_ &&
        call_in(library, "cuDeviceGetPCIBusId", bus.data(), static_cast<int>(bus.size()), cuda_device) == kOk &&
        ask("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(bus.data()), &found) == kOk;
    return known ? found : nullptr;
  }

 private:
  template <class... Arguments>
  int ask(const char* name, Arguments... arguments) {
    return library_ == nullptr ? -1 : call_in(library_, name, arguments...);
  }

  Handle library_;
  bool answers_;
};

struct Capability {
  int major = 0, minor = 0;
};

Capability capability_of(int device) {
  constexpr int kMajor = 75, kMinor = 76;  // Attributes of a device.
  Capability its;
  call("cuDeviceGetAttribute", &its.major, kMajor, device);
  call("cuDeviceGetAttribute", &its.minor, kMinor, device);
  return its;
}

std::string kernel_for(const Capability& gpu) {
  const bool is_older = gpu.major > 0 && gpu.major < 7;
  return kVersion + (is_older ? std::to_string(gpu.major) + std::to_string(gpu.minor) : "70") + kKernel;
}

// "" if the kernel ran and stored the right value, else the error.
std::string run_kernel(int device) {
  Handle context = nullptr, module = nullptr, kernel = nullptr;
  uint64_t memory = 0;
  uint32_t result = 0, value = kValue;
  std::array<void*, 2> parameters{&memory, &value};
  const std::string image = kernel_for(capability_of(device));
  int error = call("cuDevicePrimaryCtxRetain", &context, device);
  if (error != kOk) return failed("cuDevicePrimaryCtxRetain", error);
  error = call("cuCtxSetCurrent", context);
  if (error == kOk) error = call("cuModuleLoadData", &module, static_cast<const void*>(image.c_str()));
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

int create_context() {
  Handle context = nullptr;
  int error = call("cuInit", 0U);
  if (error == kOk) error = call("cuDevicePrimaryCtxRetain", &context, 0);
  return error == kOk ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return report(77, {{"gpus", 0}}, "none", "no libcuda.so.1: no NVIDIA driver is installed");
  if (argc > 1 && std::string(argv[1]) == "--context") return create_context();
  constexpr int kStub = 34, kNoDevice = 100;  // The toolkit's stub library; a driver without a GPU.
  int count = 0, device = 0, version = 0;
  const int error = call("cuInit", 0U);
  if (error == kOk && call("cuDeviceGetCount", &count) != kOk)
    return report(1, {{"gpus", 0}}, "cuDeviceGetCount fails", "");
  if (error == kStub || error == kNoDevice || (error == kOk && count == 0)) {
    return report(77, {{"gpus", 0}}, "none", "the driver has no GPU: cuInit says " + std::to_string(error));
  }
  if (error != kOk) return report(1, {{"gpus", 0}}, failed("cuInit", error), "");
  std::array<char, 256> name{};
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device);
  call("cuDriverGetVersion", &version);
  const auto [major, minor] = capability_of(device);
  constexpr int kComputeMode = 20;  // 0 for any number of processes, 3 for one at a time.
  int mode = 0;
  call("cuDeviceGetAttribute", &mode, kComputeMode, device);
  std::array<char, 16> uuid{};
  call("cuDeviceGetUuid_v2", uuid.data(), device);
  Nvml nvml;
  std::string mig, unlike;
  unsigned others = 0;
  for (int i = 0; i < count; ++i) {
    std::array<char, 256> model{};
    call("cuDeviceGetName", model.data(), static_cast<int>(model.size()), i);
    if (std::string(model.data()) != name.data()) unlike = model.data();
    const Handle handle = nvml.device(i);
    if (handle == nullptr) continue;
    if (const std::string its = nvml.mig(handle); mig != "on" && !its.empty()) mig = its;
    others += nvml.processes(handle);
  }
  Json facts = {{"gpus", count},
                {"gpu", name.data()},
                {"gpu_id", recapture::hash_of({uuid.data(), uuid.size()})},
                {"compute_capability", std::to_string(major) + "." + std::to_string(minor)},
                {"driver", nvml.driver_version()},
                {"cuda_driver", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)},
                {"mig", mig},
                {"unlike", unlike},
                {"others", others}};
  if (!nvml.answers()) facts["nvml"] = "missing";
  if (mode != 0) facts["compute_mode"] = mode == 3 ? "exclusive process" : mode == 2 ? "prohibited" : "exclusive";
  std::string wrong;
  facts["bad"] = Json::array();  // Those that do not work, by number.
  for (int i = 0; i < count; ++i) {
    const std::string its = run_kernel(i);
    if (its.empty()) continue;
    facts["bad"].push_back(i);
    wrong += (wrong.empty() ? "" : "; ") + (count == 1 ? its : "GPU " + std::to_string(i) + ": " + its);
  }
  if (!wrong.empty()) return report(1, facts, wrong, "");
  return report(0, facts, "ok", "");
}
