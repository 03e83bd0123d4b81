// Stands in for libcuda.so.1 and libnvidia-ml.so.1, as far as the canary calls them. Variables say what is wrong:
// FAKE_INIT is what cuInit returns, FAKE_GPUS how many there are (2), FAKE_BROKEN the one that runs no kernel, FAKE_MIG
// the one that is divided, FAKE_OTHERS how many processes compute on each.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}
long current = 0;     // The device of the current context, which is its handle less one.
uint32_t memory = 0;  // All that there is.
}  // namespace

extern "C" {
int cuInit(unsigned) { return number("FAKE_INIT", 0); }
int cuDeviceGetCount(int* count) { return *count = number("FAKE_GPUS", 2), 0; }
int cuDeviceGet(int* device, int i) { return *device = i, 0; }
int cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, static_cast<size_t>(size), "Fake"), 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) { return *value = attribute == 75 ? 9 : 0, 0; }
int cuDeviceGetUuid_v2(char* uuid, int device) { return std::memset(uuid, device, 16), 0; }
int cuDeviceGetPCIBusId(char* bus, int size, int device) {
  return std::snprintf(bus, static_cast<size_t>(size), "%d", device), 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = reinterpret_cast<void*>(static_cast<long>(device) + 1), 0;
}
int cuCtxSetCurrent(void* context) { return current = reinterpret_cast<long>(context) - 1, 0; }
int cuModuleLoadData(void** module, const void*) { return *module = nullptr, 0; }
int cuModuleGetFunction(void** function, void*, const char*) { return *function = nullptr, 0; }
int cuMemAlloc_v2(uint64_t* where, size_t) { return *where = reinterpret_cast<uint64_t>(&memory), 0; }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void** arguments,
                   void**) {
  if (current == number("FAKE_BROKEN", -1)) return 700;
  **static_cast<uint32_t**>(arguments[0]) = *static_cast<uint32_t*>(arguments[1]);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size) {
  return std::memcpy(to, reinterpret_cast<void*>(from), size), 0;
}

int nvmlInit_v2() { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) { return std::snprintf(version, size, "580.1"), 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  return *device = reinterpret_cast<void*>(static_cast<long>(std::atoi(bus)) + 1), 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* then) {
  *now = *then = reinterpret_cast<long>(device) - 1 == number("FAKE_MIG", -1) ? 1 : 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = static_cast<unsigned>(number("FAKE_OTHERS", 0));
  return *count == 0 ? 0 : 7;  // No room for them.
}
}
