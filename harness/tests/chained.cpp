// Another library for CUDA_INJECTION64_PATH: it creates a file when it is called. If the fake driver loads it
// (FAKE_LOADS), it calls CUDA from its constructor.
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
