// Somebody else's library for CUDA_INJECTION64_PATH: it leaves a file that says it was called. Loaded by the stand-in
// driver itself (FAKE_LOADS), it calls CUDA as it is loaded.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {
__attribute__((constructor)) void on_load() {
  if (std::getenv("FAKE_LOADS") == nullptr) return;
  reinterpret_cast<int (*)()>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fakeLoading"))();
}
}  // namespace

extern "C" int InitializeInjection() {
  if (const char* path = std::getenv("CHAINED_FILE")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fputs("called\n", file);
      std::fclose(file);
    }
  }
  return 1;
}
